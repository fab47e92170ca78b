"""How a loop's time is spent: which part waited for which, as shares."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PARTS = ("starved", "training", "publishing", "evaluating", "idle")
"""starved: training waited for rollouts. idle: no group was collected, so that sandboxes waited for training."""


class Waits:
    """Seconds by part, since the beginning and since the last `taken`. Parts run side by side."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._since = clock()
        self._spent: dict[str, float] = defaultdict(float)
        self._taken: dict[str, float] = defaultdict(float)
        self._open: dict[str, float] = {}

    @contextmanager
    def on(self, part: str) -> Iterator[None]:
        """Count what happens inside."""
        self.begin(part)
        try:
            yield
        finally:
            self.end(part)

    def begin(self, part: str) -> None:
        """Count from now on."""
        self._open.setdefault(part, self._clock())

    def end(self, part: str) -> None:
        """Count no longer; nothing if it was not counted."""
        began = self._open.pop(part, None)
        if began is not None:
            self._spent[part] += self._clock() - began

    def taken(self) -> dict[str, float]:
        """Shares of the time since the last call."""
        now = self._clock()
        total = {part: self._total(part, now) for part in PARTS}
        elapsed = max(now - self._since, 1e-9)
        found = {f"{part}_share": min(1.0, (total[part] - self._taken[part]) / elapsed) for part in PARTS}
        self._since, self._taken = now, defaultdict(float, total)
        return found

    def shares(self) -> dict[str, float]:
        """Shares of all the time so far."""
        now = self._clock()
        elapsed = max(now - self._began, 1e-9)
        return {part: self._total(part, now) / elapsed for part in PARTS}

    def _total(self, part: str, now: float) -> float:
        return self._spent[part] + (now - self._open[part] if part in self._open else 0.0)
