"""What a provider's plan allows: how many sandboxes live at once, and how fast they may be created."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class Slot:
    """One place among the live sandboxes. `release` is idempotent."""

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore: asyncio.Semaphore | None = semaphore

    def release(self) -> None:
        """Give the place to whoever waits for one."""
        semaphore, self._semaphore = self._semaphore, None
        if semaphore is not None:
            semaphore.release()


class Slots:
    """At most `limit` places; who asks for one waits, in order."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError("at least one sandbox must be allowed")
        self._semaphore = asyncio.Semaphore(limit)

    async def take(self) -> Slot:
        """Wait for a place."""
        await self._semaphore.acquire()
        return Slot(self._semaphore)


class TokenBucket:
    """Lets `burst` through at once and `rate` a second from then on, in order of asking.

    At a rate of 2 and a burst of 1, five that ask together pass at 0, 0.5, 1, 1.5 and 2 s.
    """

    def __init__(
        self,
        rate: float,
        burst: int = 1,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._interval = 1 / rate
        self._burst = burst
        self._clock = clock
        self._sleep = sleep
        self._next = float("-inf")  # when the token after all those given out so far arrives

    async def take(self) -> None:
        """Wait for a token. One who gives up meanwhile has used it all the same."""
        now = self._clock()
        self._next = max(self._next, now - (self._burst - 1) * self._interval)
        wait = self._next - now
        self._next += self._interval
        if wait > 0:
            await self._sleep(wait)
