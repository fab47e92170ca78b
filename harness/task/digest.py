"""A task's identity: changes exactly when a file's name, executable bit or content does."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from harness.task.tree import Entry, list_tree

CHUNK = 1 << 20


def folder_digest(root: Path) -> str:
    """ "sha256:..." over the files of `root`, whatever order the file system lists them in.

    Raises TaskInvalid as `list_tree` does, and OSError for a file that cannot be read.
    """
    return digest_of(root, list_tree(root))


def digest_of(root: Path, entries: Iterable[Entry]) -> str:
    """The digest over `entries`, in the order given. Links count by where they point; empty folders do not count."""
    total = hashlib.sha256()
    base = os.fspath(root)
    for entry in entries:
        name = os.fsencode(entry.name)
        if entry.target is not None:
            kind, content = b"link", hashlib.sha256(os.fsencode(entry.target)).digest()
        else:
            kind, content = b"exec" if entry.executable else b"file", _content(f"{base}/{entry.name}")
        # The length keeps a hostile name from imitating the fields that follow it.
        total.update(b"%s %d %s %s" % (kind, len(name), name, content))
    return f"sha256:{total.hexdigest()}"


def _content(path: str) -> bytes:
    content = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - Path objects double the cost of a thousand tasks
        while chunk := file.read(CHUNK):
            content.update(chunk)
    return content.digest()
