"""The modal backend: starts, lists and removes sandboxes of one Modal app."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import modal

from backends.errors import SandboxAuthError, SandboxError, SandboxUnavailable, SandboxUnsupported
from backends.lifecycle import OWNER
from backends.modal.channel import ModalChannel
from backends.modal.entrypoint import LONGEST_SEC, clock
from backends.modal.errors import CREDENTIALS_FIX, NAME
from backends.modal.images import Images
from backends.modal.session import Session, call
from backends.protocol import Capabilities, Readiness
from backends.remote.launch import Launcher
from backends.remote.limits import Slots, TokenBucket
from backends.remote.retry import repeated
from backends.remote.sandbox import RemoteSandbox
from backends.spec import NetworkMode, SandboxInfo, SandboxSpec

MAX_SANDBOXES = 100
"""What the smallest plan allows at once."""

CREATES_PER_SEC = 20.0

CAPABILITIES = Capabilities(
    networks=frozenset(NetworkMode),
    users=True,
    images=True,
    dockerfiles="any",
    memory_limit=True,
    gpus=True,
    isolation="container",
    max_sandboxes=MAX_SANDBOXES,
)
CREATED = "harness.created"
"""A tag with the time of creation, which Modal knows and its SDK does not show."""

DISK_MB = 512 << 10
"""The disk that every Modal sandbox has; another size cannot be asked for."""

LEASE_SEC = 3600.0
"""The most seconds for which a sandbox outlives its harness."""

LIST_TIMEOUT_SEC = 60.0
_CHECK_SEC = 15.0
_TAGS_AT_ONCE = 32


class ModalProvider:
    """Sandboxes of the Modal app `app`, in the workspace that the credentials belong to.

    `gpu` is the kind attached where a task asks for GPUs without naming one. Modal gives no user to a command, so one
    is entered by root inside (see `backends.modal.users`). A disk of up to 512 GiB is there without asking.
    """

    name = NAME

    def __init__(
        self,
        *,
        app: str = "harness",
        gpu: str = "any",
        max_sandboxes: int = MAX_SANDBOXES,
        creates_per_sec: float = CREATES_PER_SEC,
    ) -> None:
        self.capabilities = replace(CAPABILITIES, max_sandboxes=max_sandboxes)
        self._session = Session(app)
        self._images = Images(self._session)
        self._gpu = gpu
        self._launcher = Launcher(
            backend=NAME,
            capabilities=self.capabilities,
            admin=None,
            longest=LEASE_SEC,
            slots=Slots(max_sandboxes),
            bucket=TokenBucket(creates_per_sec, burst=max(1, round(creates_per_sec))),
            find=self.list,
            remove=self.remove,
        )

    async def check(self) -> Readiness:
        """See SandboxProvider."""
        try:
            async with call("connect", timeout=_CHECK_SEC):
                await self._session.connection()
        except SandboxAuthError as error:
            detail = str(error).removesuffix(f"; {CREDENTIALS_FIX}")
            return Readiness(works=False, isolation="container", detail=detail, fix=CREDENTIALS_FIX)
        except SandboxError as error:
            return Readiness(works=False, isolation="container", detail=str(error))
        return Readiness(works=True, isolation="container", detail=f"Modal, app {self._session.app_name!r}")

    async def start(self, spec: SandboxSpec) -> RemoteSandbox:
        """See SandboxProvider."""
        _accept(spec)
        source = await self._images.ensure(spec)
        _, app = await self._session.connection()

        async def create(labels: Mapping[str, str], ttl: float) -> ModalChannel:
            tags = {**labels, CREATED: f"{time.time():.3f}"}
            async with call("start", timeout=spec.start_timeout_sec):
                options = _options(spec, self._gpu)
                sandbox = await modal.Sandbox.create.aio(*clock(ttl), app=app, image=source.image, tags=tags, **options)
            return ModalChannel(sandbox)

        user = spec.user or source.user
        return await self._launcher.start(spec, create, workdir=spec.workdir, user=user, env=spec.env)

    async def list(self, labels: Mapping[str, str] | None = None) -> list[SandboxInfo]:
        """See SandboxProvider."""
        return await repeated(lambda: _listed(self._session, dict(labels or {})))

    async def remove(self, sandbox_id: str) -> None:
        """See SandboxProvider."""
        client, _ = await self._session.connection()

        async def found() -> modal.Sandbox | None:
            try:
                async with call("remove", sandbox_id=sandbox_id):
                    return await modal.Sandbox.from_id.aio(sandbox_id, client=client)
            except SandboxUnavailable as error:
                if isinstance(error.__cause__, modal.exception.NotFoundError):
                    return None
                raise

        sandbox = await repeated(found)
        if sandbox is not None:
            await ModalChannel(sandbox).destroy()

    async def close(self) -> None:
        """See SandboxProvider."""
        await self._launcher.close()
        await self._images.close()
        await self._session.close()


async def _listed(session: Session, labels: dict[str, str]) -> list[SandboxInfo]:
    """The SDK's list names sandboxes only; their tags are asked for one by one, some at a time."""
    client, app = await session.connection()
    some = asyncio.Semaphore(_TAGS_AT_ONCE)

    async def described(sandbox: modal.Sandbox) -> SandboxInfo | None:
        async with some:
            try:
                async with call("list", sandbox_id=sandbox.object_id):
                    tags = await sandbox.get_tags.aio()
            except SandboxUnavailable as error:
                if isinstance(error.__cause__, modal.exception.NotFoundError):
                    return None  # it ended meanwhile
                raise
        if OWNER not in tags:
            return None
        created = float(tags.get(CREATED, "0"))
        return SandboxInfo(id=sandbox.object_id, backend=NAME, labels=tags, created_at=created)

    async with call("list", timeout=LIST_TIMEOUT_SEC):
        found = [s async for s in modal.Sandbox.list.aio(app_id=app.app_id, tags=labels, client=client)]
    return [info for info in await asyncio.gather(*map(described, found)) if info is not None]


def _accept(spec: SandboxSpec) -> None:
    """Refuse what Modal cannot give, before anything is made."""
    resources = spec.resources
    refused = None
    if resources.disk_mb is not None and resources.disk_mb > DISK_MB:
        refused = f"a disk of {resources.disk_mb} MiB: Modal's sandboxes have {DISK_MB} MiB"
    elif resources.pids is not None:
        refused = f"a limit of {resources.pids} processes: Modal has none"
    elif spec.ttl_sec > LONGEST_SEC:
        refused = f"{spec.ttl_sec:g} s to live: Modal ends every sandbox after {LONGEST_SEC} s"
    if refused is not None:
        raise SandboxUnsupported(f"modal cannot give {refused}; use another backend", backend=NAME, operation="start")


def _options(spec: SandboxSpec, gpu: str) -> dict[str, Any]:
    """The limits of `Sandbox.create`. Requests are limits too: what a task says it needs is what it gets."""
    resources = spec.resources
    options: dict[str, Any] = {"timeout": LONGEST_SEC, "block_network": spec.network is NetworkMode.NONE}
    if resources.cpus is not None:
        options["cpu"] = (resources.cpus, resources.cpus)
    if resources.memory_mb is not None:
        options["memory"] = (resources.memory_mb, resources.memory_mb)
    if resources.gpus:
        options["gpu"] = f"{gpu}:{resources.gpus}"
    return options
