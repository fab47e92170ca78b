"""Images: taken from a registry or built from a Dockerfile by Modal, once per content however many trials wait."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import modal

from backends.errors import SandboxTimeout, SandboxUnsupported
from backends.local.image import logical_lines
from backends.modal.errors import NAME
from backends.modal.session import Session, call
from backends.remote.once import folder_digest
from backends.spec import SandboxSpec

_CLOSE_SEC = 5.0


@dataclass(frozen=True, slots=True)
class Source:
    """What a sandbox is made from. `user` is who its commands are meant to run as; None if nobody is named."""

    image: modal.Image
    user: str | None


class Images:
    """The images of one session. Modal keeps the layers, so that another process finds them built.

    A build belongs to all who wait for it: whoever stops waiting does not end it for the others.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._builds: dict[str, asyncio.Task[Source]] = {}

    async def ensure(self, spec: SandboxSpec) -> Source:
        """The spec's image, built or pulled if Modal lacks it, within `build_timeout_sec`.

        Raises SandboxBuildError (with the log), SandboxImageNotFound, SandboxTimeout, SandboxUnavailable.
        """
        key = (
            f"image {spec.image}" if spec.build_dir is None else await asyncio.to_thread(folder_digest, spec.build_dir)
        )
        build = self._builds.get(key)
        if build is None:
            build = self._builds[key] = asyncio.create_task(self._make(spec))
            build.add_done_callback(lambda done: self._ended(key, done))
        try:
            async with asyncio.timeout(spec.build_timeout_sec) as limit:
                return await asyncio.shield(build)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise SandboxTimeout(
                f"the image of {spec.image or spec.build_dir} was not ready after {spec.build_timeout_sec:g} s",
                backend=NAME,
                operation="build",
            ) from error

    async def close(self) -> None:
        """Stop waiting for builds. Modal goes on with those that it has begun."""
        builds = [build for build in self._builds.values() if not build.done()]
        for build in builds:
            build.cancel()
        if builds:
            await asyncio.wait(builds, timeout=_CLOSE_SEC)

    def _ended(self, key: str, build: asyncio.Task[Source]) -> None:
        # What was built stays known; what failed is tried again by whoever asks next.
        if build.cancelled() or build.exception() is not None:
            self._builds.pop(key, None)

    async def _make(self, spec: SandboxSpec) -> Source:
        _, app = await self._session.connection()
        operation, user = "pull", None
        if spec.build_dir is not None:
            operation, user = "build", await asyncio.to_thread(_last_user, spec.build_dir / "Dockerfile")
        async with call(operation, timeout=spec.build_timeout_sec):
            if spec.build_dir is None:
                assert spec.image is not None
                image = modal.Image.from_registry(spec.image)
            else:
                image = modal.Image.from_dockerfile(spec.build_dir / "Dockerfile", context_dir=spec.build_dir)
            if user is not None:
                image = image.dockerfile_commands("USER root")  # who can become any user, this one among them
            return Source(await image.build.aio(app), user)


def _last_user(dockerfile: Path) -> str | None:
    """The user that the last stage of a Dockerfile ends as; None where it names none."""
    user = None
    for number, line in logical_lines(dockerfile.read_text(encoding="utf-8", errors="replace")):
        keyword, _, rest = line.partition(" ")
        if keyword.upper() == "FROM":
            user = None
        elif keyword.upper() == "USER":
            user = rest.strip().partition(":")[0]
            if "$" in user:
                raise SandboxUnsupported(
                    f"{dockerfile}:{number}: a USER that is a variable; name the user", backend=NAME, operation="build"
                )
    return None if user in ("root", "0") else user
