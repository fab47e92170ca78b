"""Sending a job's trials after the fact: the same child process, which is given as long as it makes progress."""

from __future__ import annotations

import time
from collections.abc import Sequence

from harness.tracing.exporter import Exporter, Tally

_STALL_SEC = 40.0
_TICK_SEC = 0.2


def push(exporter: Exporter, names: Sequence[str]) -> Tally:
    """Send the trials of these names; returns when each was answered for, or when nothing moves any more."""
    exporter.tally.offered = len(names)
    exporter.start()
    waiting = list(reversed(names))
    answered, moved = 0, time.monotonic()
    alive = True
    try:
        while alive and answered < len(names) and time.monotonic() - moved < _STALL_SEC:
            while waiting and exporter.offer(waiting[-1]):
                waiting.pop()
            alive = exporter.hear(_TICK_SEC)
            done = exporter.tally.sent + exporter.tally.left_out + exporter.tally.failed
            if done > answered:
                answered, moved = done, time.monotonic()
        exporter.ask_to_end(_STALL_SEC)
        while alive and answered == len(names) and time.monotonic() - moved < _STALL_SEC:
            alive = exporter.hear(_TICK_SEC)
    finally:
        exporter.kill()
    return exporter.tally
