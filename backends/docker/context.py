"""What a build folder is: the digest of all that the engine would be sent, .dockerignore respected."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

from docker.utils import exclude_paths

_CHUNK = 1 << 20


def context_digest(folder: Path) -> str:
    """A digest of names, kinds, modes, link targets and contents; times and owners do not count.

    Raises OSError when something in the folder cannot be read.
    """
    digest = hashlib.sha256(b"build-context-1\0")
    for name in sorted(exclude_paths(str(folder), _ignored(folder))):
        path = folder / name
        status = path.lstat()
        digest.update(
            f"{name}\0{stat.S_IFMT(status.st_mode):o} {stat.S_IMODE(status.st_mode):o}\0".encode(
                "utf-8", "surrogateescape"
            )
        )
        if stat.S_ISLNK(status.st_mode):
            digest.update(str(path.readlink()).encode("utf-8", "surrogateescape"))
        elif stat.S_ISREG(status.st_mode):
            digest.update(f"{status.st_size}\0".encode())
            with path.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
    return digest.hexdigest()


def _ignored(folder: Path) -> list[str]:
    """The patterns of .dockerignore, read as docker-py's builder reads them."""
    try:
        text = (folder / ".dockerignore").read_text()
    except FileNotFoundError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
