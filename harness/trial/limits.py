"""Deadlines that hold even when what they bound never answers.

`asyncio.timeout` waits for the cancelled work to end, and work that swallows its cancellation never does. Here the
caller always goes on: after the deadline and a grace the work is left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

_abandoned: set[asyncio.Task[Any]] = set()
"""Strong references, so that the loop does not collect a task that may still end."""


class DeadlinePassed(TimeoutError):
    """The work missed its deadline. `abandoned` tells that it did not even answer its cancellation."""

    def __init__(self, what: str, seconds: float, *, abandoned: bool) -> None:
        super().__init__(f"{what} missed its deadline of {seconds:g} s")
        self.abandoned = abandoned


async def bounded(work: Coroutine[Any, Any, T], *, what: str, timeout: float, grace: float = 10.0) -> T:
    """The result of `work`, or DeadlinePassed at most `timeout + grace` seconds from now.

    A cancellation of the caller cancels the work and waits for it, at most `grace` seconds.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        await _end(task, grace)
        raise
    if done:
        return task.result()
    ended = await _end(task, grace)
    if ended and not task.cancelled() and task.exception() is None:
        return task.result()
    raise DeadlinePassed(what, timeout, abandoned=not ended)


async def _end(task: asyncio.Task[Any], grace: float) -> bool:
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=grace)
    if done:
        return True
    _abandoned.add(task)
    task.add_done_callback(_forget)
    return False


def _forget(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLimits:
    """Seconds that each part of a trial may take, where the task does not say.

    Attributes:
        helper: any one call that the harness makes for itself (cleaning, uploads, downloads). Generous: hours of an
            agent's work must not be voided by a slow provider.
        grace: how long cancelled work may take to end before it is left behind.
        margin: what the watchdog adds to the sum of all parts.
    """

    helper: float = 300.0
    start: float = 300.0
    collect: float = 600.0
    stop: float = 60.0
    grace: float = 10.0
    margin: float = 120.0
