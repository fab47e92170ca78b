"""A growing JSON document that is whole on disk at every moment, at a cost that does not grow with its length.

Rewriting the whole document for every step would cost the square of its length, and extending it in place would leave
a torn document to a reader, or to a process killed in the middle of a write. So there are two copies. One of them is
the document, by a hard link; the other lags behind by one update. An update brings the lagging copy up to date (cut
its closing brackets, append what it lacks, close again) and then moves the document's name over to it by rename, which
is atomic. Every step is written twice, whatever the length of the document, and only the latest steps are in memory.
Where the file system knows no hard links, every update publishes a whole new copy instead; and so it is while the
document is small, for then that is cheaper than the two copies.

A reader that opened the document sees one consistent version until the second update after that. Nothing here waits
for the disk: whoever wants the document to survive a crash of the machine, too, flushes it once it is finished.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_SEPARATOR = b",\n"
_SMALL_BYTES = 32 << 10


@dataclass(slots=True)
class _Copy:
    """One copy: how many settled items it has, and the byte after them."""

    path: Path
    items: int = 0
    end: int = 0


class Document(Protocol):
    """`head`, items that are separated by commas, `tail`: where the steps of one trajectory go."""

    def update(self, head: bytes, last: bytes, tail: bytes) -> None:
        """Make `last` the last item."""

    def settle(self, item: bytes) -> None:
        """The last item is `item` for good; the next update adds one."""

    def finish(self) -> None:
        """Nothing will be added any more."""


class EmbeddedDocument:
    """A document that lives inside another one, which is told of every update. Empty before the first."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.content = b""
        self._changed = changed
        self._settled: list[bytes] = []

    def update(self, head: bytes, last: bytes, tail: bytes) -> None:
        """Make `last` the last item. Raises what the other document raises."""
        self.content = head + _SEPARATOR.join([*self._settled, last]) + tail
        self._changed()

    def settle(self, item: bytes) -> None:
        """The last item is `item` for good; the next update adds one."""
        self._settled.append(item)

    def finish(self) -> None:
        """Nothing will be added any more."""
        self._settled.clear()


class GrowingDocument:
    """`head`, items that are separated by commas, `tail`. The last item can change until it is settled."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._copies = [_Copy(path.with_name(f".{path.name}.{index}")) for index in (0, 1)]
        self._staging = path.with_name(f".{path.name}.new")
        self._settled = 0
        self._missing: list[bytes] = []
        """The settled items that one of the copies still lacks, the newest last."""
        self._copied = False

    def update(self, head: bytes, last: bytes, tail: bytes) -> None:
        """Make `last` the last item. Raises OSError, and then the document is what it was before."""
        if not self._copied and sum(map(len, self._missing)) + len(last) < _SMALL_BYTES:
            self._replace(head + b"".join(item + _SEPARATOR for item in self._missing) + last + tail)
            return
        self._copied = True
        behind, ahead = self._copies
        lacking = self._lacking(behind)
        start = behind.end
        settled = b"".join([head if not start else b"", *(item + _SEPARATOR for item in lacking)])
        content = settled + last + tail
        handle = os.open(behind.path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC) if start else _create(behind.path)
        try:
            _write_at(handle, start, content)
            os.ftruncate(handle, start + len(content))
        finally:
            os.close(handle)
        self._publish(behind.path)
        behind.end, behind.items = start + len(settled), self._settled
        self._missing = self._lacking(ahead)
        self._copies = [ahead, behind]

    def settle(self, item: bytes) -> None:
        """The last item is `item` for good; the next update adds one."""
        self._missing.append(item)
        self._settled += 1

    def finish(self) -> None:
        """Leave the document alone in its folder."""
        if self._copied:
            for path in (*(copy.path for copy in self._copies), self._staging):
                path.unlink(missing_ok=True)

    def _replace(self, content: bytes) -> None:
        handle = _create(self._staging)
        try:
            try:
                _write_at(handle, 0, content)
            finally:
                os.close(handle)
            self._staging.replace(self._path)
        except OSError:
            self._staging.unlink(missing_ok=True)
            raise

    def _lacking(self, copy: _Copy) -> list[bytes]:
        return self._missing[len(self._missing) - (self._settled - copy.items) :]

    def _publish(self, source: Path) -> None:
        try:
            os.link(source, self._staging)
        except OSError:
            self._staging.unlink(missing_ok=True)
            shutil.copyfile(source, self._staging)
        self._staging.replace(self._path)


def _create(path: Path) -> int:
    """A new file. What a killed process left there may be linked to the document: it is removed, never written into."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        path.unlink()
    return os.open(path, flags, 0o644)


def _write_at(handle: int, offset: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view, offset = view[written:], offset + written
