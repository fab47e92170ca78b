"""The last steps' numbers, and what is asked of them. Bounded, whatever a run's length."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence

_KEPT = 200


class History:
    """The newest steps, and the mean of each number's first values, which nothing displaces."""

    def __init__(self, start: int) -> None:
        """`start`: how many first values make up what a number began with."""
        self._start = start
        self._steps = 0
        self._values: dict[str, deque[tuple[int, float]]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self._first: dict[str, list[float]] = defaultdict(list)

    def add(self, metrics: Mapping[str, float | int | None]) -> None:
        """Take the next step. What is unknown in it leaves no trace."""
        self._steps += 1
        for name, value in metrics.items():
            if value is None or not math.isfinite(value):
                continue
            self._values[name].append((self._steps, float(value)))
            if len(self._first[name]) < self._start:
                self._first[name].append(float(value))

    def last(self, name: str, count: int) -> list[float]:
        """The known values of the newest `count` steps, oldest first."""
        found: list[float] = []
        for step, value in reversed(self._values[name]):
            if step <= self._steps - count:
                break
            found.append(value)
        return found[::-1]

    def recent(self, name: str, window: int) -> float | None:
        """The mean over the newest `window` steps; None where fewer than half of them, or of a window, are known."""
        values = self.last(name, window)
        return math.fsum(values) / len(values) if self._steps >= window and 2 * len(values) >= window else None

    def began(self, name: str) -> float | None:
        """The mean of the first values; None until there are enough."""
        first = self._first[name]
        return math.fsum(first) / len(first) if len(first) == self._start else None


def median(values: Sequence[float]) -> float:
    """The middle value."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def rising_p(values: Sequence[float]) -> float:
    """The one-sided p-value of "no upward trend", by Mann and Kendall, ties and continuity corrected."""
    n = len(values)
    score = sum((values[b] > values[a]) - (values[b] < values[a]) for b in range(n) for a in range(b))
    ties = Counter(values).values()
    spread = (n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)) / 18
    if score <= 0 or spread <= 0:
        return 1.0
    return 0.5 * math.erfc((score - 1) / math.sqrt(2 * spread))
