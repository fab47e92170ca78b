"""Unproductive loops in a sequence of calls, found while it goes by.

A loop is a run of at least three same calls that all fail, with nothing between them; or a circle of one to three calls
that comes round at least three times, in at least six calls, with the same results each time. So `pytest` that fails
three times in a row is a loop of 3, and A B A B A B with unchanging output one of 6; `pytest`, an edit, `pytest`,
another edit is none, nor are twenty edits of twenty files.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

FAILED_RUN = 3
ROUNDS = 3
CIRCLE_CALLS = 6
PERIODS = (1, 2, 3)

_NOISE = re.compile(r"\d+\.\d+ ?s(?:ec(?:onds?)?)?\b|0x[0-9a-fA-F]+")
"""Run times and addresses, which differ from run to run of the very same."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One call and what came of it. `failed` is None where no structured fact tells."""

    key: str
    result: str
    failed: bool | None

    def same(self, other: Happening) -> bool:
        """Whether call and result are the same."""
        if self.key != other.key or self.failed != other.failed:
            return False
        return self.result == other.result or (
            abs(len(self.result) - len(other.result)) < 100
            and _NOISE.sub("", self.result) == _NOISE.sub("", other.result)
        )


@dataclass(frozen=True, slots=True)
class Loops:
    """How many loops there were, how many calls are in them, and how many in the longest."""

    count: int
    calls: int
    longest: int


class LoopDetector:
    """Takes calls in their order and keeps the last three; linear, whatever the sequence."""

    def __init__(self) -> None:
        self._seen = 0
        self._last: deque[Happening] = deque(maxlen=max(PERIODS))
        self._failing = 0
        """Length of the run of same failing calls that goes on."""
        self._repeats = dict.fromkeys(PERIODS, 0)
        """By period: how many calls in a row equal the one a period before them."""
        self._spans: list[tuple[int, int]] = []

    def add(self, call: Happening) -> None:
        """Take the next call."""
        again = bool(self._last) and self._last[-1].key == call.key
        if not (again and call.failed and self._failing):
            self._close_failing()
        if call.failed:
            self._failing += 1
        for period in PERIODS:
            if len(self._last) >= period and self._last[-period].same(call):
                self._repeats[period] += 1
            else:
                self._close_circle(period)
        self._last.append(call)
        self._seen += 1

    def result(self) -> Loops:
        """What was found, up to now."""
        spans = list(self._spans)
        if self._failing >= FAILED_RUN:
            spans.append((self._seen - self._failing, self._seen))
        spans += [span for period in PERIODS if (span := self._circle(period)) is not None]
        merged: list[tuple[int, int]] = []
        for start, end in sorted(spans):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end))
            else:
                merged.append((start, end))
        lengths = [end - start for start, end in merged]
        return Loops(count=len(lengths), calls=sum(lengths), longest=max(lengths, default=0))

    def _close_failing(self) -> None:
        if self._failing >= FAILED_RUN:
            self._spans.append((self._seen - self._failing, self._seen))
        self._failing = 0

    def _close_circle(self, period: int) -> None:
        if (span := self._circle(period)) is not None:
            self._spans.append(span)
        self._repeats[period] = 0

    def _circle(self, period: int) -> tuple[int, int] | None:
        length = self._repeats[period] + period
        enough = length >= max(CIRCLE_CALLS, ROUNDS * period)
        return (self._seen - length, self._seen) if enough else None
