"""What is made once however many wait for it: an image, a template, a snapshot."""

from __future__ import annotations

import asyncio
import hashlib
import stat
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Generic, TypeVar

from backends.errors import SandboxBuildError, SandboxError

T = TypeVar("T")

_CHUNK = 1 << 20


class Once(Generic[T]):
    """Results by key. A failure that a repetition cannot change is kept too: nobody waits for it twice."""

    def __init__(self) -> None:
        self._made: dict[str, T] = {}
        self._failed: dict[str, SandboxError] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def get(self, key: str, make: Callable[[], Awaitable[T]]) -> T:
        """The result for `key`. If who makes it is cancelled, the next in line takes over."""
        async with self._locks[key]:
            if key in self._failed:
                raise self._failed[key]
            if key not in self._made:
                try:
                    self._made[key] = await make()
                except SandboxError as error:
                    if not error.retryable:
                        self._failed[key] = error
                    raise
            return self._made[key]

    def forget(self, key: str, made: T | None = None) -> None:
        """Make it anew next time: the provider said that it is gone. With `made`, only if that is what is known."""
        if made is None or self._made.get(key) is made:
            self._made.pop(key, None)


def folder_digest(folder: Path) -> str:
    """A digest of names, kinds, modes, link targets and contents of a build folder; times and owners do not count.

    Raises SandboxBuildError when it holds no Dockerfile, or something in it cannot be read.
    """
    if not (folder / "Dockerfile").is_file():
        raise SandboxBuildError(f"{folder} holds no Dockerfile")
    digest = hashlib.sha256(b"build-folder-1\0")
    try:
        for path in sorted(folder.rglob("*")):
            status = path.lstat()
            name = path.relative_to(folder).as_posix()
            kind, mode = stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)
            digest.update(f"{name}\0{kind:o} {mode:o}\0".encode("utf-8", "surrogateescape"))
            if stat.S_ISLNK(status.st_mode):
                digest.update(str(path.readlink()).encode("utf-8", "surrogateescape"))
            elif stat.S_ISREG(status.st_mode):
                digest.update(f"{status.st_size}\0".encode())
                with path.open("rb") as file:
                    while chunk := file.read(_CHUNK):
                        digest.update(chunk)
    except OSError as error:
        raise SandboxBuildError(f"{folder} cannot be read: {error}") from error
    return digest.hexdigest()
