"""What goes along from the sandbox of one step to the next one's: the places that the task names, and nothing else."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Sequence
from pathlib import Path

from backends.errors import SandboxError
from backends.protocol import SandboxBackendProtocol
from harness.trial.verifier import run_as_root

_MAX_BYTES = 64 << 20


async def take_along(sandbox: SandboxBackendProtocol, places: Sequence[str], folder: Path) -> list[str]:
    """Download the places, each under its number; return the names of what is left behind.

    A place that is not there is no loss, and one that is too large or damaged stays: an agent must not void its task
    by it. Raises SandboxError where the sandbox fails.
    """
    dropped: list[str] = []
    for number, place in enumerate(places):
        try:
            names = await sandbox.download(place, folder / str(number), max_bytes=_MAX_BYTES)
            dropped += [posixpath.normpath(f"{place}/{name}") for name in names]
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            pass
        except SandboxError as error:
            if not await sandbox.is_alive():
                raise
            dropped.append(f"{place} (left behind: {error})")
    return dropped


async def bring(sandbox: SandboxBackendProtocol, places: Sequence[str], folder: Path, *, timeout: float) -> None:
    """Upload what was taken along, for every user to read and write. Raises SandboxError."""
    brought = [place for number, place in enumerate(places) if (folder / str(number)).exists()]
    for place in brought:
        await sandbox.upload(folder / str(places.index(place)), place)
    if brought:
        await run_as_root(sandbox, f"chmod -R a+rwX -- {shlex.join(brought)}", timeout, "open what was carried along")
