"""What a sandbox is made from: an image by reference, or a snapshot built once from a Dockerfile and its folder.

A snapshot's name is made from all that goes into it, its resources included, so that every process of an organisation
finds the one that another has built. The service runs everything as the image's own user and can switch to no other;
so root is made that user, and the Dockerfile's last USER becomes the user of commands that name none.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

from daytona import CreateSnapshotParams, DaytonaError, Image, Resources

from backends.daytona.client import Client
from backends.daytona.errors import NAME, build_failure, is_gone, status_of
from backends.errors import SandboxBuildError, SandboxError, SandboxQuotaError, SandboxTimeout, SandboxUnsupported
from backends.local.image import logical_lines
from backends.remote.once import Once, folder_digest
from backends.remote.retry import repeated
from backends.spec import SandboxSpec

_POLL_SEC = 1.0
_AS_ROOT = "USER root"
_FAILED = ("error", "build_failed")
_REMOTE = ("http://", "https://", "git@", "ssh://")


@dataclass(frozen=True, slots=True)
class Source:
    """What to make a sandbox from: a snapshot's name, or else an image that its creation builds."""

    snapshot: str | None
    image: Image | None
    user: str


class Images:
    """Makes sources; each snapshot is built once, however many wait for it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._once: Once[None] = Once()

    async def ensure(self, spec: SandboxSpec) -> Source:
        """The source of a sandbox, its snapshot being ready within `build_timeout_sec`.

        Where the organisation may have no more snapshots, the sandbox's own creation builds the Dockerfile. Raises
        SandboxBuildError, SandboxImageNotFound, SandboxUnsupported, SandboxTimeout, and what calls raise.
        """
        if spec.image is not None:
            return Source(None, Image.base(spec.image).dockerfile_commands([_AS_ROOT]), spec.user or "root")
        assert spec.build_dir is not None
        own = await asyncio.to_thread(_check, spec.build_dir / "Dockerfile")
        user = own if spec.user is None else spec.user
        image = await asyncio.to_thread(_declare, spec.build_dir)
        content = await asyncio.to_thread(folder_digest, spec.build_dir)
        name = f"harness-{hashlib.sha256(f'1 {content} {resources(spec)}'.encode()).hexdigest()[:40]}"
        try:
            async with asyncio.timeout(spec.build_timeout_sec) as limit:
                await self._once.get(name, lambda: self._build(name, image, spec))
        except SandboxQuotaError:
            return Source(None, image, user)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise SandboxTimeout(
                f"the snapshot of {spec.build_dir} was not ready after {spec.build_timeout_sec:g} s",
                backend=NAME,
                operation="build",
            ) from error
        return Source(name, None, user)

    async def lost(self, source: Source) -> bool:
        """Whether a snapshot is no longer ready, as the service does to those long unused; it is then made anew."""
        if source.snapshot is None or (await self._state(source.snapshot))[0] == "active":
            return False
        self._once.forget(source.snapshot)
        return True

    async def _build(self, name: str, image: Image, spec: SandboxSpec) -> None:
        state, reason = await self._state(name)
        if state in _FAILED:
            await self._forget(name)
            state = None
        if state is None:
            await self._create(name, image, spec)
            state, reason = await self._state(name)
        elif state == "inactive":
            async with self._client.call("build") as sdk:
                await sdk.snapshot.activate(name)
        while state != "active":
            if state in _FAILED:
                raise build_failure(reason)
            await asyncio.sleep(_POLL_SEC)
            state, reason = await self._state(name)

    async def _create(self, name: str, image: Image, spec: SandboxSpec) -> None:
        """Ask for the snapshot and wait for it. One that another process asks for meanwhile is as good."""
        try:
            async with self._client.call("build", timeout=spec.build_timeout_sec) as sdk:
                await sdk.snapshot.create(CreateSnapshotParams(name=name, image=image, resources=resources(spec)))
        except SandboxError as error:
            taken = status_of(error) == 409 and not isinstance(error, SandboxQuotaError)
            if not taken and (status_of(error) is not None or (await self._state(name))[0] not in _FAILED):
                raise

    async def _state(self, name: str) -> tuple[str | None, str | None]:
        async def attempt() -> tuple[str | None, str | None]:
            try:
                async with self._client.call("build") as sdk:
                    found = await sdk.snapshot.get(name)
            except SandboxError as error:
                if is_gone(error):
                    return None, None
                raise
            return found.state.value, found.error_reason

        return await repeated(attempt)

    async def _forget(self, name: str) -> None:
        async with self._client.call("build") as sdk:
            await sdk.snapshot.delete(name)
        while (await self._state(name))[0] is not None:  # noqa: ASYNC110 - the service ends it
            await asyncio.sleep(_POLL_SEC)


def resources(spec: SandboxSpec) -> Resources:
    """The spec's resources in the service's units: whole cores and GiB, rounded up; None leaves its default."""
    wanted = spec.resources

    def whole(value: float | None) -> int | None:
        return None if value is None else max(1, math.ceil(value))

    return Resources(
        cpu=whole(wanted.cpus),
        memory=whole(None if wanted.memory_mb is None else wanted.memory_mb / 1024),
        disk=whole(None if wanted.disk_mb is None else wanted.disk_mb / 1024),
        gpu=wanted.gpus or None,
    )


def _declare(folder: Path) -> Image:
    """The SDK's image of a build folder; its files are sent when it is built."""
    try:
        image = Image.from_dockerfile(folder / "Dockerfile", strict_context=True)
    except (DaytonaError, UnicodeDecodeError) as error:
        raise SandboxBuildError(f"{folder / 'Dockerfile'}: {error}", backend=NAME) from error
    return image.dockerfile_commands([_AS_ROOT])


def _check(dockerfile: Path) -> str:
    """The user of the last USER line, root without one. Raises SandboxUnsupported for what the SDK does not send."""
    try:
        text = dockerfile.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxBuildError(f"{dockerfile}: cannot be read: {error}", backend=NAME) from error
    user = "root"
    for number, instruction in logical_lines(text):
        keyword, _, rest = instruction.partition(" ")
        words = [word for word in rest.split() if not word.startswith("--")]
        match keyword.upper():
            case "FROM":
                user = "root"
            case "USER":
                user = rest.strip().partition(":")[0]
                if "$" in user:
                    raise _unsupported(dockerfile, number, "a USER that is a variable; name the user")
            case "ADD" if not all(word.startswith(_REMOTE) for word in words[:-1]):
                raise _unsupported(dockerfile, number, "ADD of local files; use COPY")
    return user


def _unsupported(dockerfile: Path, number: int, what: str) -> SandboxUnsupported:
    return SandboxUnsupported(f"{dockerfile}:{number}: {NAME} does not take {what}", backend=NAME, operation="build")
