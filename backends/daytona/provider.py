"""The Daytona backend: starts, lists and removes sandboxes of one organisation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from daytona import (
    AsyncSandbox,
    CreateSandboxFromImageParams,
    CreateSandboxFromSnapshotParams,
    DaytonaTimeoutError,
    ListSandboxesQuery,
)

from backends.daytona.channel import DaytonaChannel, delete, minutes, state
from backends.daytona.client import CREDENTIALS, MISSING, Client
from backends.daytona.errors import NAME, build_failure, is_gone
from backends.daytona.images import Images, Source, resources
from backends.errors import (
    SandboxAuthError,
    SandboxError,
    SandboxStartError,
    SandboxTimeout,
    SandboxUnavailable,
    SandboxUnsupported,
)
from backends.lifecycle import OWNER, finish
from backends.protocol import Capabilities, Readiness
from backends.remote.launch import ATTEMPT, Launcher
from backends.remote.limits import Slots, TokenBucket
from backends.remote.retry import repeated
from backends.remote.sandbox import RemoteSandbox
from backends.spec import NetworkMode, SandboxInfo, SandboxSpec

CAPABILITIES = Capabilities(
    networks=frozenset(NetworkMode),
    users=True,
    images=True,
    dockerfiles="any",
    memory_limit=True,
    gpus=True,
    isolation="container",
)

MAX_SANDBOXES = 40
CREATES_PER_SEC = 8.0
"""The service's own limit is 600 a minute for an organisation."""

LEASE_SEC = 1800.0
_CLEANUP_SEC = 60.0
_CREATE_SLACK_SEC = 10.0
_ENDING = ("destroyed", "destroying")


class DaytonaProvider:
    """Sandboxes of the organisation that the environment's credentials belong to, at most `max_sandboxes` at once.

    Resources are whole cores and GiB, and a time to live whole minutes: both are rounded up. A Dockerfile becomes a
    snapshot, which is kept; `.dockerignore` is not read, as the SDK has it. An image given by reference runs as root
    unless the spec names a user.
    """

    name = NAME

    def __init__(self, *, max_sandboxes: int = MAX_SANDBOXES, creates_per_sec: float = CREATES_PER_SEC) -> None:
        self.capabilities = dataclasses.replace(CAPABILITIES, max_sandboxes=max_sandboxes)
        self._client = Client()
        self._images = Images(self._client)
        self._launcher = Launcher(
            backend=NAME,
            capabilities=self.capabilities,
            admin="root",
            longest=LEASE_SEC,
            slots=Slots(max_sandboxes),
            bucket=TokenBucket(creates_per_sec, burst=max(1, round(creates_per_sec))),
            find=self.list,
            remove=self.remove,
        )

    async def check(self) -> Readiness:
        """See SandboxProvider."""
        try:
            async with self._client.call("check", timeout=10.0) as sdk:
                async for _ in sdk.list(ListSandboxesQuery(limit=1)):
                    break
        except SandboxAuthError as error:
            detail = MISSING if error.operation == "connect" else str(error)
            return Readiness(works=False, isolation=CAPABILITIES.isolation, detail=detail, fix=CREDENTIALS)
        except SandboxError as error:
            return Readiness(
                works=False,
                isolation=CAPABILITIES.isolation,
                detail=f"no answer from {self._client.address}: {error}",
                fix="check the network, and DAYTONA_API_URL where it is set",
            )
        return Readiness(works=True, isolation=CAPABILITIES.isolation, detail=f"Daytona at {self._client.address}")

    async def start(self, spec: SandboxSpec) -> RemoteSandbox:
        """See SandboxProvider."""
        source = await self._images.ensure(spec)
        try:
            return await self._start(spec, source)
        except (SandboxUnsupported, SandboxStartError):
            if not await self._images.lost(source):
                raise
            return await self._start(spec, await self._images.ensure(spec))

    async def list(self, labels: Mapping[str, str] | None = None) -> list[SandboxInfo]:
        """See SandboxProvider."""
        return [
            SandboxInfo(id=found.id, backend=NAME, labels=found.labels, created_at=_seconds(found.created_at))
            for found in await find(self._client, labels)
            if OWNER in found.labels
        ]

    async def remove(self, sandbox_id: str) -> None:
        """See SandboxProvider."""
        try:
            async with self._client.call("remove", sandbox_id=sandbox_id) as sdk:
                found = await sdk.get(sandbox_id)
        except SandboxError as error:
            if is_gone(error):
                return
            raise
        await delete(self._client, found)

    async def close(self) -> None:
        """See SandboxProvider."""
        try:
            await self._launcher.close()
        finally:
            await self._client.close()

    async def _start(self, spec: SandboxSpec, source: Source) -> RemoteSandbox:
        if source.image is not None:
            # Its creation builds or pulls the image, and may take as long as both.
            total = spec.start_timeout_sec + spec.build_timeout_sec
            spec = dataclasses.replace(spec, start_timeout_sec=total)

        async def create(labels: Mapping[str, str], ttl: float) -> DaytonaChannel:
            return await self._create(spec, source, labels, ttl)

        return await self._launcher.start(spec, create, workdir=spec.workdir, user=source.user, env=spec.env)

    async def _create(self, spec: SandboxSpec, source: Source, labels: Mapping[str, str], ttl: float) -> DaytonaChannel:
        limit = spec.start_timeout_sec
        try:
            async with self._client.call("create", timeout=limit + _CREATE_SLACK_SEC) as sdk:
                return DaytonaChannel(
                    self._client, await sdk.create(_parameters(spec, source, labels, ttl), timeout=limit)
                )
        except SandboxError as error:
            left = error.__cause__
            if isinstance(left, DaytonaTimeoutError) and left.sandbox_id is not None:
                await finish(self.remove(left.sandbox_id), timeout=_CLEANUP_SEC)
            elif isinstance(error, SandboxStartError):
                await self._explain(labels, error)
            raise

    async def _explain(self, labels: Mapping[str, str], error: SandboxStartError) -> None:
        """Raise what a sandbox that could not start says of itself. The SDK drops its reason."""
        with suppress(SandboxUnavailable, SandboxTimeout):
            for sandbox in await find(self._client, {ATTEMPT: labels[ATTEMPT]}):
                if state(sandbox) == "build_failed":
                    await finish(delete(self._client, sandbox), timeout=_CLEANUP_SEC)
                    raise build_failure(sandbox.error_reason, sandbox_id=sandbox.id) from error
                if sandbox.error_reason:
                    text = f"{NAME} create: the sandbox ended in the state {state(sandbox)}: {sandbox.error_reason}"
                    raise SandboxStartError(text, backend=NAME, operation="create", sandbox_id=sandbox.id) from error


async def find(client: Client, labels: Mapping[str, str] | None) -> list[AsyncSandbox]:
    """The sandboxes, whoever's, that carry all of `labels` and are not ending."""

    async def attempt() -> list[AsyncSandbox]:
        async with client.call("list") as sdk:
            query = ListSandboxesQuery(labels=dict(labels) if labels else None)
            return [found async for found in sdk.list(query) if state(found) not in _ENDING]

    return await repeated(attempt)


def _parameters(
    spec: SandboxSpec, source: Source, labels: Mapping[str, str], ttl: float
) -> CreateSandboxFromImageParams | CreateSandboxFromSnapshotParams:
    """Fresh for every sandbox: the SDK writes into them. Nothing may end it but its time to live."""
    common = {
        "labels": dict(labels),
        "network_block_all": spec.network is NetworkMode.NONE,
        "ephemeral": True,
        "auto_stop_interval": 0,
        "ttl_minutes": minutes(ttl),
    }
    if source.image is not None:
        return CreateSandboxFromImageParams(image=source.image, resources=resources(spec), **common)
    return CreateSandboxFromSnapshotParams(snapshot=source.snapshot, **common)


def _seconds(created_at: str | None) -> float:
    """A creation time since the epoch; 0 for one that the service does not tell, which makes it old."""
    return datetime.fromisoformat(created_at).timestamp() if created_at else 0.0
