"""The e2b backend: starts, lists and removes sandboxes of one E2B account."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from e2b import AsyncSandbox, SandboxQuery

from backends.e2b.channel import ADMIN, CALL_SEC, E2BChannel, kill
from backends.e2b.errors import NAME, translate
from backends.e2b.templates import Template, Templates
from backends.errors import SandboxAuthError, SandboxError, SandboxImageNotFound, SandboxUnsupported
from backends.lifecycle import OWNER
from backends.protocol import Capabilities, Readiness
from backends.remote.channel import Channel
from backends.remote.failures import deadline
from backends.remote.launch import ATTEMPT, Launcher
from backends.remote.limits import Slots, TokenBucket
from backends.remote.retry import repeated
from backends.remote.sandbox import RemoteSandbox
from backends.spec import NetworkMode, SandboxInfo, SandboxSpec

MAX_SANDBOXES = 20
"""What the smallest plan allows at once."""

CREATES_PER_SEC = 1.0
"""What the smallest plan allows."""

LEASE_SEC = 1800.0
"""How long a sandbox outlives a harness that was killed, at most."""

CAPABILITIES = Capabilities(
    networks=frozenset(NetworkMode),
    users=True,
    images=True,
    dockerfiles="any",
    memory_limit=False,
    gpus=False,
    isolation="vm",
    max_sandboxes=MAX_SANDBOXES,
)
_KEY = "E2B_API_KEY"
_GET_KEY = f"set {_KEY} to a key from https://e2b.dev/dashboard?tab=keys"


class E2BProvider:
    """Sandboxes of the account that E2B_API_KEY belongs to; the SDK's other variables (E2B_DOMAIN, ...) hold as well.

    CPUs and memory are fixed in the template, one of which is built per size; `disk_mb` asks for free space.
    """

    name = NAME

    def __init__(
        self,
        *,
        max_sandboxes: int = MAX_SANDBOXES,
        creates_per_sec: float = CREATES_PER_SEC,
        lease_sec: float = LEASE_SEC,
    ) -> None:
        self.capabilities = replace(CAPABILITIES, max_sandboxes=max_sandboxes)
        self._key = os.environ.get(_KEY) or None
        self._options: dict[str, Any] = {"api_key": self._key, "request_timeout": CALL_SEC}
        self._translate = partial(translate, secret=self._key)
        self._templates = Templates(self._options, self._translate)
        self._launcher = Launcher(
            backend=NAME,
            capabilities=self.capabilities,
            admin=ADMIN,
            longest=lease_sec,
            slots=Slots(max_sandboxes),
            bucket=TokenBucket(creates_per_sec, burst=max(1, round(creates_per_sec))),
            find=self.list,
            remove=self.remove,
        )

    async def check(self) -> Readiness:
        """See SandboxProvider."""
        if self._key is None:
            return Readiness(works=False, isolation="vm", detail=f"{_KEY} is not set", fix=_GET_KEY)
        try:
            async with self._deadline("list", 10.0):
                await AsyncSandbox.list(limit=1, **self._options).next_items()
        except SandboxAuthError as error:
            return Readiness(works=False, isolation="vm", detail=str(error), fix=_GET_KEY)
        except SandboxError as error:
            return Readiness(works=False, isolation="vm", detail=str(error))
        return Readiness(works=True, isolation="vm", detail="the E2B API answers")

    async def start(self, spec: SandboxSpec) -> RemoteSandbox:
        """See SandboxProvider."""
        self._accept(spec)
        template = await self._templates.ensure(spec)
        try:
            return await self._start(spec, template)
        except SandboxImageNotFound:
            return await self._start(spec, await self._templates.ensure(spec, stale=template))

    async def list(self, labels: Mapping[str, str] | None = None) -> list[SandboxInfo]:
        """See SandboxProvider."""
        self._require_key()
        return await repeated(lambda: _list(dict(labels or {}), self._options, self._deadline("list", CALL_SEC)))

    async def remove(self, sandbox_id: str) -> None:
        """See SandboxProvider."""
        self._require_key()
        await kill(sandbox_id, self._options, self._translate)

    async def close(self) -> None:
        """See SandboxProvider. The SDK's connections belong to the process."""
        await self._launcher.close()

    def _accept(self, spec: SandboxSpec) -> None:
        self._require_key()
        if spec.resources.gpus:
            raise SandboxUnsupported(
                "e2b has no GPUs; use `--backend docker`, modal or daytona", backend=NAME, operation="start"
            )

    def _require_key(self) -> None:
        if self._key is None:
            raise SandboxAuthError(f"{_KEY} is not set; {_GET_KEY}", backend=NAME)

    async def _start(self, spec: SandboxSpec, template: Template) -> RemoteSandbox:
        # A template without a Dockerfile has the directory of its image, which only the sandbox knows.
        workdir = spec.workdir or template.workdir

        async def create(labels: Mapping[str, str], ttl: float) -> Channel:
            return await self._create(spec, template, labels, ttl)

        return await self._launcher.start(spec, create, workdir=workdir, user=spec.user or template.user, env=spec.env)

    async def _create(self, spec: SandboxSpec, template: Template, labels: Mapping[str, str], ttl: float) -> Channel:
        async with self._deadline("create", spec.start_timeout_sec):
            sandbox = await AsyncSandbox.create(
                template.alias,
                timeout=math.ceil(ttl),
                metadata=dict(labels),
                allow_internet_access=spec.network is NetworkMode.FULL,
                idempotency_key=labels[ATTEMPT],
                **{**self._options, "request_timeout": spec.start_timeout_sec},
            )
        return E2BChannel(sandbox, self._options, self._translate)

    def _deadline(self, operation: str, timeout: float) -> AbstractAsyncContextManager[None]:
        return deadline(self._translate, operation, backend=NAME, timeout=timeout)


async def _list(
    labels: dict[str, str], options: Mapping[str, Any], limit: AbstractAsyncContextManager[None]
) -> list[SandboxInfo]:
    found = []
    async with limit:
        pages = AsyncSandbox.list(query=SandboxQuery(metadata=labels), **options)
        while pages.has_next:
            found += await pages.next_items()
    return [
        SandboxInfo(id=each.sandbox_id, backend=NAME, labels=each.metadata, created_at=each.started_at.timestamp())
        for each in found
        if OWNER in each.metadata and labels.items() <= each.metadata.items()
    ]
