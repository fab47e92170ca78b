"""Repeating what may be repeated: calls that change nothing when they are made twice."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from backends.errors import SandboxError, SandboxQuotaError, SandboxUnavailable

T = TypeVar("T")

ATTEMPTS = 4
_FIRST_SEC = 0.5
_LONGEST_SEC = 15.0
_LONGEST_ASKED_SEC = 120.0

_log = logging.getLogger(__name__)


def worth_repeating(error: SandboxError) -> bool:
    """Whether the same call may fare better in a moment. A missed deadline has already cost its time."""
    return error.retryable and isinstance(error, SandboxQuotaError | SandboxUnavailable)


def pause(attempt: int, random_number: Callable[[], float] = random.random) -> float:
    """Seconds before repetition `attempt` (from 1): doubled each time, with half of it by chance."""
    return min(_LONGEST_SEC, _FIRST_SEC * 2.0 ** (attempt - 1)) * (0.5 + random_number() / 2)


async def repeated(
    work: Callable[[], Awaitable[T]],
    *,
    attempts: int = ATTEMPTS,
    repeat: Callable[[SandboxError], bool] = worth_repeating,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    random_number: Callable[[], float] = random.random,
) -> T:
    """The result of an idempotent `work`, tried at most `attempts` times; its last error if none works.

    Never sooner than the provider asks, except where it asks for more than two minutes.
    """
    for attempt in range(1, attempts):
        try:
            return await work()
        except SandboxError as error:
            if not repeat(error):
                raise
            wait = max(pause(attempt, random_number), min(error.retry_after or 0.0, _LONGEST_ASKED_SEC))
            # The provider's own words may repeat what it was sent: only what failed is told.
            failed = f"{type(error).__name__} of {error.backend or 'the provider'} ({error.operation or 'a call'})"
            _log.warning("%s; repetition %d of %d in %.1f s", failed, attempt, attempts - 1, wait)
            await sleep(wait)
    return await work()
