"""A bounded number of executions at a time; those that infrastructure failed are repeated, without holding a slot."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from harness.records import TrialResult
from harness.trial.spec import TrialSpec

MAX_DELAY_SEC = 60.0


@dataclass(frozen=True, slots=True)
class RetryRule:
    """How often, and after what pause. The failure table says which failures are worth it."""

    max_retries: int = 2
    base_sec: float = 2.0
    jitter: Callable[[], float] = field(default=lambda: random.uniform(0.5, 1.0))  # noqa: S311 – spreads retries

    def delay(self, result: TrialResult, repeated: int) -> float | None:
        """Seconds until the next try after `repeated` earlier ones; None if there is to be none."""
        if result.failure is None or not result.failure.retryable or repeated >= self.max_retries:
            return None
        return float(min(MAX_DELAY_SEC, self.base_sec * 2**repeated)) * self.jitter()


class Stopping(IntEnum):
    """How urgently the job is to end."""

    NO = 0
    DRAIN = 1
    """Finish what runs, start nothing new."""
    NOW = 2
    """Cancel what runs."""


class Scheduler:
    """Runs specs through `run_one`, at most `concurrency` at a time, in their order; a retry keeps its spec's place.

    A spec is queued, running in a worker, waiting for its retry, or done. With two slots and a, b, c, of which b
    fails once: `a b` run, `a c` run while b waits, then `b'` before anything that was planned after it.
    """

    def __init__(
        self,
        run_one: Callable[[TrialSpec], Awaitable[TrialResult]],
        *,
        concurrency: int,
        retry: RetryRule,
        on_retry: Callable[[TrialResult, float], None] = lambda result, delay: None,
        stop_on: Callable[[TrialResult], bool] = lambda result: False,
    ) -> None:
        """`stop_on` is asked of every result that is not repeated: is starting anything new pointless after it?"""
        self._run_one = run_one
        self._concurrency = concurrency
        self._retry = retry
        self._on_retry = on_retry
        self._stop_on = stop_on
        self._queue: asyncio.PriorityQueue[tuple[float, int, TrialSpec | None]] = asyncio.PriorityQueue()
        self._entry = itertools.count()
        self._waiting: set[asyncio.TimerHandle] = set()
        self._workers: list[asyncio.Task[None]] = []
        self._open = 0
        self.stopping = Stopping.NO

    async def run(self, specs: Sequence[TrialSpec]) -> None:
        """Return when every spec is done, or when stopped and nothing runs any more.

        An exception of `run_one` stops everything and is raised again.
        """
        self._open = len(specs)
        for place, spec in enumerate(specs):
            self._enqueue(place, spec)
        first_retry = {(spec.task.name, spec.attempt): spec.retry for spec in specs}
        count = min(self._concurrency, len(specs))
        self._workers = [asyncio.create_task(self._work(first_retry)) for _ in range(count)]
        try:
            done, _ = await asyncio.wait(self._workers, return_when=asyncio.FIRST_EXCEPTION) if count else ((), ())
            failed = [worker for worker in done if not worker.cancelled() and worker.exception() is not None]
        finally:
            if any(not worker.done() for worker in self._workers):
                self.stop(Stopping.NOW)
                await asyncio.gather(*self._workers, return_exceptions=True)
        if failed:
            failed[0].result()

    def stop(self, how: Stopping) -> None:
        """Start nothing new; with NOW also cancel what runs. Repeated and weaker calls change nothing."""
        if how <= self.stopping:
            return
        self.stopping = how
        for handle in self._waiting:
            handle.cancel()
        self._waiting.clear()
        while not self._queue.empty():
            self._queue.get_nowait()
        self._dismiss()
        if how is Stopping.NOW:
            for worker in self._workers:
                worker.cancel()

    async def _work(self, first_retry: dict[tuple[str, int], int]) -> None:
        while True:
            place, _, spec = await self._queue.get()
            if spec is None:
                return
            result = await self._run_one(spec)
            repeated = spec.retry - first_retry[spec.task.name, spec.attempt]
            delay = None if self.stopping else self._retry.delay(result, repeated)
            if delay is None:
                if self._stop_on(result):
                    self.stop(Stopping.DRAIN)
                self._open -= 1
                if self._open == 0:
                    self._dismiss()
            else:
                self._on_retry(result, delay)
                before = result.failure.tag if result.failure else None
                self._wait(delay, place, replace(spec, retry=spec.retry + 1, before=before))

    def _wait(self, delay: float, place: float, spec: TrialSpec) -> None:
        def ready() -> None:
            self._waiting.discard(handle)
            self._enqueue(place, spec)

        handle = asyncio.get_running_loop().call_later(delay, ready)
        self._waiting.add(handle)

    def _enqueue(self, place: float, spec: TrialSpec | None) -> None:
        self._queue.put_nowait((place, next(self._entry), spec))

    def _dismiss(self) -> None:
        """Let every worker end after what it is doing."""
        for _ in self._workers:
            self._enqueue(math.inf, None)
