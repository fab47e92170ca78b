"""A sandbox's time to live where the provider's clock is short: renewed as long as we live, and not a second longer.

The provider is never asked for more than `longest` seconds, so that a harness that is killed leaves its sandboxes
behind for that long at most, however long their time to live is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from backends.errors import SandboxError

_SHARE = 3  # renewed when a third has passed: two failures in a row cost nothing


class Lease:
    """Keeps one sandbox for `ttl` seconds from its start, or from the last `renew`.

    `extend(seconds)` tells the provider to end the sandbox so many seconds from now.
    """

    def __init__(
        self,
        extend: Callable[[float], Awaitable[None]],
        *,
        ttl: float,
        longest: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._extend = extend
        self._ttl = ttl
        self._longest = longest
        self._clock = clock
        self._sleep = sleep
        self._end = clock() + ttl
        self._task: asyncio.Task[None] | None = None

    @property
    def first(self) -> float:
        """What the provider is asked for at creation."""
        return min(self._ttl, self._longest)

    def start(self) -> None:
        """Begin to renew, if the provider's time is shorter than ours."""
        self._end = self._clock() + self._ttl
        if self._ttl > self._longest and self._task is None:
            self._task = asyncio.create_task(self._keep())

    async def renew(self) -> None:
        """Restart the time to live from now."""
        await self._extend(self.first)
        self._end = self._clock() + self._ttl

    async def stop(self) -> None:
        """Stop renewing. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            await self._sleep(self._longest / _SHARE)
            left = self._end - self._clock()
            if left <= 0:
                return
            try:
                await self._extend(min(left, self._longest))
            except SandboxError as error:
                # Whoever uses the sandbox meets the trouble itself; a blip is made good by the next round.
                if not error.retryable:
                    return
