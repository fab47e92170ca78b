"""Without namespaces: the task's absolute paths are the host's own, so one such sandbox lives at a time."""

from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from backends.errors import SandboxStartError
from backends.local.home import Home

_RETRY_SEC = 0.05


class Lock:
    """Held while a sandbox without isolation lives; the kernel releases it with the process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        os.close(self._fd)


async def take_lock(parent: Path) -> Lock:
    """Wait for the other such sandboxes of this user to end; the caller sets the deadline."""
    path = parent / f"harness-local-unsafe-{os.geteuid()}.lock"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return Lock(fd)
            await asyncio.sleep(_RETRY_SEC)
    except BaseException:
        os.close(fd)
        raise


def make_directories(home: Home, directories: Iterable[str]) -> Home:
    """Make those that the host lacks, and note them, to be removed at the end with what is in them."""
    made: list[str] = []
    try:
        for name in directories:
            path = Path(name)
            missing = [parent for parent in (path, *path.parents) if not os.path.lexists(parent)]
            for parent in reversed(missing):
                parent.mkdir()
            if missing:
                made.append(str(missing[-1]))
    except OSError as error:
        raise SandboxStartError(
            f"without namespaces the task's own paths are needed on this host: {error}", backend="local"
        ) from error
    finally:
        home = dataclasses.replace(home, made=tuple(made))
        home.save()
    return home
