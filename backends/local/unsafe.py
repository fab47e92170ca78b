"""Without namespaces: the task's absolute paths are the host's own, so one such sandbox lives at a time."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
import socket
from collections.abc import Iterable
from pathlib import Path

from backends.errors import SandboxStartError
from backends.local.home import Home

_RETRY_SEC = 0.05


class Lock:
    """Held while a sandbox without isolation lives: a name in the kernel, which forgets it with the process."""

    def __init__(self, holder: socket.socket) -> None:
        self._holder = holder

    def release(self) -> None:
        self._holder.close()


async def take_lock() -> Lock:
    """Wait for the other such sandboxes of this user to end; the caller sets the deadline."""
    holder = socket.socket(socket.AF_UNIX)
    try:
        while True:
            try:
                holder.bind(f"\0harness-local-unsafe-{os.geteuid()}")
                return Lock(holder)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            await asyncio.sleep(_RETRY_SEC)
    except BaseException:
        holder.close()
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
