"""An event loop whose clock jumps to what is due next: hours of waiting in no time, the same on any machine."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """For programs that wait for nothing but timers."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        due = self._scheduled  # type: ignore[attr-defined]
        if due and not self._ready:  # type: ignore[attr-defined]
            self._now = max(self._now, due[0].when())
        super()._run_once()  # type: ignore[misc]


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
