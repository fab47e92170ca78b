"""One process of this host at a time: for what all of them would otherwise build at once."""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_POLL_SEC = 0.2


def cache_folder() -> Path:
    """Where build logs and locks lie: `$XDG_CACHE_HOME/harness/images`, or `~/.cache/harness/images`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "harness" / "images"


@asynccontextmanager
async def exclusive(folder: Path, key: str) -> AsyncIterator[None]:
    """Hold `key`; the kernel frees it if this process dies. Raises OSError where `folder` cannot be written."""
    with await asyncio.to_thread(_open, folder, key) as handle:
        while not _locked(handle):  # noqa: ASYNC110 - another process frees it
            await asyncio.sleep(_POLL_SEC)
        yield


def _open(folder: Path, key: str) -> io.TextIOWrapper:
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / f"{key}.lock").open("w")


def _locked(handle: io.TextIOWrapper) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
