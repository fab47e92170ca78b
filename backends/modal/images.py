"""Images: taken from a registry or built from a Dockerfile by Modal, once per content however many trials wait."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from pathlib import Path

import modal

from backends.errors import SandboxBuildError
from backends.modal.errors import NAME
from backends.modal.session import Session, call
from backends.spec import SandboxSpec


class Images:
    """The images of one session. Modal keeps the layers, so that another process finds them built."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, modal.Image] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ensure(self, spec: SandboxSpec) -> modal.Image:
        """The spec's image, built or pulled if Modal lacks it, within `build_timeout_sec`.

        Raises SandboxBuildError (with the log), SandboxImageNotFound, SandboxTimeout, SandboxUnavailable.
        """
        key = spec.image if spec.build_dir is None else await asyncio.to_thread(_digest, spec.build_dir)
        assert key is not None
        async with self._locks[key]:
            if key not in self._known:
                self._known[key] = await self._make(spec)
            return self._known[key]

    def forget(self, image: modal.Image) -> None:
        """Ask Modal again next time: it said that the image is gone."""
        self._known = {key: known for key, known in self._known.items() if known is not image}

    async def _make(self, spec: SandboxSpec) -> modal.Image:
        app = await self._session.app()
        async with call("pull" if spec.build_dir is None else "build", timeout=spec.build_timeout_sec):
            if spec.build_dir is None:
                assert spec.image is not None
                image = modal.Image.from_registry(spec.image)
            else:
                image = modal.Image.from_dockerfile(spec.build_dir / "Dockerfile", context_dir=spec.build_dir)
            return await image.build.aio(app)


def _digest(folder: Path) -> str:
    """Names, modes and contents of a build folder."""
    if not (folder / "Dockerfile").is_file():
        raise SandboxBuildError(f"{folder} holds no Dockerfile", backend=NAME)
    digest = hashlib.sha256()
    try:
        for path in sorted(folder.rglob("*")):
            status = path.lstat()
            digest.update(f"{path.relative_to(folder)}\0{status.st_mode:o}\0".encode("utf-8", "surrogateescape"))
            if path.is_file():
                digest.update(f"{status.st_size}\0".encode())
                digest.update(path.read_bytes())
    except OSError as error:
        raise SandboxBuildError(f"{folder} cannot be read: {error}", backend=NAME) from error
    return digest.hexdigest()
