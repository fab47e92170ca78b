"""Empty folders on the job's own file system, used again and again: making one costs more than using it."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Scratch:
    """Hands out empty folders below `root`, of which each is used by one trial at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._free: list[Path] = []
        self._names = itertools.count()

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """An empty folder. What is left in it is removed."""
        folder = self._free.pop() if self._free else self._new()
        try:
            yield folder
        finally:
            self._empty(folder)

    def remove(self) -> None:
        """Remove everything, the root included."""
        self._free.clear()
        shutil.rmtree(self._root, ignore_errors=True)

    def _new(self) -> Path:
        folder = self._root / str(next(self._names))
        shutil.rmtree(folder, ignore_errors=True)  # left there by a run that was killed
        folder.mkdir(parents=True)
        return folder

    def _empty(self, folder: Path) -> None:
        if not any(folder.iterdir()):
            self._free.append(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
