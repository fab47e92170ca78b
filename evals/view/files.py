"""The files of a trial, opened so that nothing outside of its folder is ever read: no link is followed, at any level.

What lies in the folder came out of a sandbox: names, links, devices and pipes are an attacker's choice.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.strict_json import whole

MOST = 2000
"""Files that are listed of a trial."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe would wait for its writer


class Refused(ValueError):
    """There is no such file, or it is none that may be read."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry below a folder. `kind` is "file", "link" or "other"; only files can be read."""

    path: str
    kind: str
    size: int


def open_below(root: Path, path: str) -> int:
    """A descriptor of the regular file at `path` below `root`, to be closed by the caller. Raises Refused."""
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):  # an absolute path begins with an empty part
        raise Refused("no such file")
    here = -1
    try:
        here = os.open(root, _FOLDER)
        for part in parts[:-1]:
            below = os.open(part, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
        found = os.open(parts[-1], _FILE, dir_fd=here)
    except (OSError, ValueError) as error:
        raise Refused("no such file, or one that is not shown: links are not followed") from error
    finally:
        if here >= 0:
            os.close(here)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise Refused("not a regular file")
    return found


def read_below(root: Path, path: str, most: int) -> tuple[bytes, int]:
    """At most so many bytes from the beginning of a file below `root`, and its size. Raises Refused."""
    descriptor = open_below(root, path)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most), os.fstat(descriptor).st_size


def listed(root: Path) -> list[Listed]:
    """What lies below `root`, at most `MOST` entries, folders first looked into in the order of their names."""
    found: list[Listed] = []
    for each in _walk(root, ""):
        found.append(each)
        if len(found) >= MOST:
            break
    return found


def _walk(folder: Path, prefix: str) -> Iterator[Listed]:
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        name = f"{prefix}{entry.name}"
        if stat.S_ISDIR(found.st_mode):
            yield from _walk(folder / entry.name, f"{name}/")
        elif stat.S_ISREG(found.st_mode) and whole(name) == name:  # as an address can hold it
            yield Listed(name, "file", found.st_size)
        else:
            yield Listed(name, "link" if stat.S_ISLNK(found.st_mode) else "other", 0)
