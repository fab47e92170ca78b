"""A backend of one's own: the sandboxes of another one, under a company's rules.

No network whatever a task asks for, and never more than two CPUs and 2 GiB. A task that needs more network than that is
one clear task error; one that asks for more memory gets what the house allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backends import (
    Capabilities,
    NetworkMode,
    Readiness,
    SandboxBackendProtocol,
    SandboxInfo,
    SandboxSpec,
    SandboxUnsupported,
    create_provider,
)


class HouseRules:
    """A SandboxProvider; its options are those of `create_provider(name, **options)`."""

    name = "house"

    def __init__(self, inner: str = "local") -> None:
        self._inner = create_provider(inner)

    @property
    def capabilities(self) -> Capabilities:
        return replace(self._inner.capabilities, networks=frozenset({NetworkMode.NONE}))

    async def check(self) -> Readiness:
        return await self._inner.check()

    async def start(self, spec: SandboxSpec) -> SandboxBackendProtocol:
        if spec.network is not NetworkMode.NONE:
            raise SandboxUnsupported("the house has no network for sandboxes", backend=self.name, operation="start")
        asked = spec.resources
        allowed = replace(asked, cpus=min(asked.cpus or 2, 2), memory_mb=min(asked.memory_mb or 2048, 2048))
        return await self._inner.start(replace(spec, resources=allowed))

    async def list(self, labels: Mapping[str, str] | None = None) -> list[SandboxInfo]:
        return [replace(info, backend=self.name) for info in await self._inner.list(labels)]

    async def remove(self, sandbox_id: str) -> None:
        await self._inner.remove(sandbox_id)

    async def close(self) -> None:
        await self._inner.close()
