"""Windowed FIFO: in which order finished work may be trained on, between "as it started" and "as it finished".

Items are numbered as they start. With the head H the oldest that is not consumed yet, and a window of W, only items in
[H, H + W) may be taken, in the order in which they finished; what finished beyond waits. The window moves only when its
head is consumed. W = 1 is first in, first out; W = None takes whatever is finished, which starves slow items.

With at most N items at a time that are not consumed, one is at most N + W - 2 updates old when it is taken.
(arXiv 2605.26494, section 6.2.4, with half-open bounds.)
"""

from __future__ import annotations

import math
from typing import Generic, TypeVar

Item = TypeVar("Item")

RATIO = 0.3
"""W / N in the source's runs."""


def window_of(slots: int, ratio: float = RATIO) -> int:
    """The window for so many items at a time."""
    return max(1, math.floor(ratio * slots))


class WindowedFifo(Generic[Item]):
    """The state of one queue. It waits for nothing: who waits asks `take` again after the next `finish`."""

    def __init__(self, window: int | None) -> None:
        """`window`: W, at least 1; None is without bound."""
        if window is not None and window < 1:
            raise ValueError(f"a window holds at least its head, not {window} items")
        self._window = window
        self._open: set[int] = set()
        self._finished: dict[int, Item] = {}
        self._started = 0
        self.head = 0

    def start(self) -> int:
        """The number of a new item at the tail."""
        self._open.add(self._started)
        self._started += 1
        return self._started - 1

    def finish(self, number: int, item: Item) -> None:
        """The item is there. Raises KeyError if it finished before, was taken, or was given up."""
        self._open.remove(number)
        self._finished[number] = item

    def give_up(self, number: int) -> None:
        """The item failed, or took too long. It counts as consumed: as a head it would block everything behind it."""
        if number not in self._open and number not in self._finished:
            raise KeyError(number)
        self._open.discard(number)
        self._finished.pop(number, None)
        self._move()

    def take(self) -> tuple[int, Item] | None:
        """The item within the window that finished first, and its number; None while there is none."""
        number = next((each for each in self._finished if self._within(each)), None)
        if number is None:
            return None
        item = self._finished.pop(number)
        self._move()
        return number, item

    @property
    def unconsumed(self) -> int:
        """Items that were started and neither taken nor given up."""
        return len(self._open) + len(self._finished)

    @property
    def blocked(self) -> int:
        """Finished items that wait for the window."""
        return sum(not self._within(number) for number in self._finished)

    def _within(self, number: int) -> bool:
        return self._window is None or number < self.head + self._window

    def _move(self) -> None:
        while self.head < self._started and self.head not in self._open and self.head not in self._finished:
            self.head += 1
