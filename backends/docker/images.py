"""Images: built once per content digest or pulled once, and shared by every trial, job and process of this host.

Logs and locks lie in `$XDG_CACHE_HOME/harness/images` (or `~/.cache/harness/images`), named by the digest.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from backends.docker.engine import Engine
from backends.docker.errors import NAME
from backends.errors import SandboxBuildError, SandboxDiskFull, SandboxImageNotFound, SandboxTimeout, SandboxUnavailable
from backends.exclusive import cache_folder, exclusive
from backends.lifecycle import finish
from backends.spec import SandboxSpec

REPOSITORY = "harness-build"

_AT_ONCE = 4
_ABORT_SEC = 10.0


@dataclass(frozen=True, slots=True)
class Image:
    """What the engine says of an image, read once."""

    id: str
    workdir: str
    user: str
    env: Mapping[str, str]


class Images:
    """Finds, builds and pulls the images of one engine."""

    def __init__(self, engine: Engine, folder: Path | None = None) -> None:
        self._engine = engine
        self._folder = folder or cache_folder()
        self._known: dict[str, Image] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._threads = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="docker-image")

    async def ensure(self, spec: SandboxSpec) -> Image:
        """The spec's image, built or pulled if the engine lacks it, within `build_timeout_sec`.

        Raises SandboxBuildError (with the log), SandboxImageNotFound, SandboxTimeout, SandboxUnavailable,
        SandboxDiskFull.
        """
        try:
            async with asyncio.timeout(spec.build_timeout_sec) as deadline:
                if spec.build_dir is None:
                    assert spec.image is not None
                    return await self._ensure(spec.image, spec, key=hashlib.sha256(spec.image.encode()).hexdigest())
                digest = await asyncio.get_running_loop().run_in_executor(self._threads, _digest, spec.build_dir)
                return await self._ensure(f"{REPOSITORY}:{digest[:40]}", spec, key=digest)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            what = spec.image or spec.build_dir
            raise SandboxTimeout(
                f"the image of {what} was not ready after {spec.build_timeout_sec:g} s", backend=NAME, operation="build"
            ) from error

    def forget(self, image: Image) -> None:
        """Ask the engine again next time: it said that the image is gone."""
        self._known = {reference: known for reference, known in self._known.items() if known != image}

    def log_path(self, spec: SandboxSpec) -> Path:
        """Where the output of building this folder is kept."""
        assert spec.build_dir is not None
        return self._folder / f"{_digest(spec.build_dir)}.log"

    def close(self) -> None:
        """Let the threads go; none is waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _ensure(self, reference: str, spec: SandboxSpec, *, key: str) -> Image:
        if known := self._known.get(reference):
            return known
        async with self._locks[reference]:
            image = self._known.get(reference) or await self._inspect(reference)
            if image is None:
                async with self._exclusive(key):
                    image = await self._inspect(reference) or await self._make(reference, spec, key)
            self._known[reference] = image
            return image

    async def _make(self, reference: str, spec: SandboxSpec, key: str) -> Image:
        operation = "pull" if spec.build_dir is None else "build"
        try:
            log = await asyncio.to_thread((self._folder / f"{key}.log").open, "w", encoding="utf-8", errors="replace")
        except OSError as error:
            raise SandboxDiskFull(
                f"the build log cannot be written: {error}", backend=NAME, operation=operation
            ) from error
        with log:
            await self._transfer(operation, reference, spec, log)
        image = await self._inspect(reference)
        if image is None:
            raise SandboxUnavailable(f"{reference} vanished after its {operation}", backend=NAME, operation=operation)
        return image

    async def _transfer(self, operation: str, reference: str, spec: SandboxSpec, log: TextIO) -> None:
        from backends.docker.transfer import Transfer

        def request(client: Any) -> Any:
            if spec.build_dir is None:
                return client.pull(reference, stream=True, decode=True)
            return client.build(path=str(spec.build_dir), tag=reference, rm=True, forcerm=True, decode=True)

        transfer = Transfer(operation, self._engine.url, request)
        work = asyncio.get_running_loop().run_in_executor(self._threads, transfer.run, log, spec.build_timeout_sec)
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            transfer.abort()
            work.cancel()
            await finish(_ended(work), timeout=_ABORT_SEC)
            raise
        work.result()

    async def _inspect(self, reference: str) -> Image | None:
        try:
            async with self._engine.call("image") as client:
                found = await client.images.inspect(reference)
        except SandboxImageNotFound:
            return None
        config = found.get("Config") or {}
        env = dict(entry.partition("=")[::2] for entry in config.get("Env") or ())
        return Image(found["Id"], config.get("WorkingDir") or "/", config.get("User") or "", env)

    @asynccontextmanager
    async def _exclusive(self, key: str) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(exclusive(self._folder, key))
            except OSError as error:
                raise SandboxDiskFull(
                    f"{self._folder} cannot be written: {error}; set XDG_CACHE_HOME", backend=NAME, operation="build"
                ) from error
            yield


async def _ended(work: asyncio.Future[None]) -> None:
    await asyncio.wait({work})
    if not work.cancelled():
        work.exception()


def _digest(folder: Path) -> str:
    from backends.docker.context import context_digest

    if not (folder / "Dockerfile").is_file():
        raise SandboxBuildError(f"{folder} holds no Dockerfile", backend=NAME)
    try:
        return context_digest(folder)
    except (OSError, UnicodeError) as error:
        raise SandboxBuildError(f"{folder} cannot be read: {error}", backend=NAME) from error
