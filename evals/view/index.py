"""The index that the viewer asks, brought up to date beside it for as long as somebody looks.

Where a folder of jobs has an index, it is that one, refreshed as every query does. Else it is one of the viewer's own,
in `$XDG_CACHE_HOME/harness/view` (or `~/.cache/harness/view`): nothing is written into a folder that has none.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from harness.errors import UsageError, first_line
from harness.store.index.database import default_path
from harness.store.index.refresh import Refreshed
from harness.store.trajectories import TrajectoryStore

_SLICE_SEC = 1.0
"""How long a refresh may take before it looks whether it is to end."""

_IDLE_SEC = 30.0
_TIMES = 10.0
"""A look at all folders is repeated after so many times what it took, but not within a second."""


def place_of(folder: Path) -> Path:
    """The file of the index."""
    own = default_path(folder)
    if own.is_file() and os.access(own, os.W_OK) and os.access(own.parent, os.W_OK):
        return own
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    digest = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    return base / "harness" / "view" / f"{digest}.sqlite"


class LiveIndex:
    """The store, and a thread that refreshes it.

    Attributes:
        version: grows whenever the index has changed.
        complete: whether the index says what the folders said a moment ago; `read` trials were read so far.
        trouble: why it cannot be refreshed, in a line.
    """

    def __init__(self, folder: Path, ready: Callable[[], None] = lambda: None) -> None:
        """`ready` is called once, when all has been read. Raises UsageError where the index cannot be made."""
        self.place = place_of(folder)
        own = self.place == default_path(folder)
        self.store = TrajectoryStore(folder, db=None if own else self.place)
        self.store.database.prepare()
        self.version = 0
        self.complete = False
        self.read = 0
        self.trouble: str | None = None
        self._ready: Callable[[], None] | None = ready
        self._asked = time.monotonic()
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="index", daemon=True)

    def start(self) -> None:
        """Begin to refresh."""
        self._thread.start()

    def ask(self) -> None:
        """Somebody looks."""
        self._asked = time.monotonic()
        self._wanted.set()

    def close(self) -> None:
        """End the thread, within about a second, and close the store."""
        self._ended.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join()
        self.store.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            self._refresh()
            if self.complete:
                self._ended.wait(max(1.0, _TIMES * (time.monotonic() - began)))
            elif self.trouble:
                self._ended.wait(5.0)
            self._wanted.clear()  # before looking: whoever asks from here on is heard
            if time.monotonic() - self._asked > _IDLE_SEC and self.complete and not self._ended.is_set():
                self._wanted.wait()

    def _refresh(self) -> None:
        before = self.read

        def on_progress(done: Refreshed) -> None:
            self.read = before + done.added + done.changed
            self.version += 1

        try:
            done = self.store.refresh(budget_sec=_SLICE_SEC, on_progress=on_progress)
        except (UsageError, OSError) as error:
            self.trouble = first_line(error)
            return
        self.trouble = None
        if done.complete and self._ready is not None:
            self._ready()
            self._ready = None
        self.complete = done.complete
        self.version += done.removed > 0
