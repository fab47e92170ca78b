"""How long to wait before asking an endpoint again, and when to stop asking."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from harness.llm.classify import Failure

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with jitter on top.

    Attributes:
        max_retries: requests after the first one.
        base_sec: the first wait; each further one is twice as long.
        cap_sec: the longest wait of our own choosing; the endpoint may ask for more.
        jitter: the part of a wait that chance may add, so that many runs do not come back at once.
    """

    max_retries: int = 6
    base_sec: float = 1.0
    cap_sec: float = 60.0
    jitter: float = 0.25

    def wait(self, retry: int, chance: float, asked: float | None) -> float:
        """Seconds before retry number `retry` (from 0); `chance` is in [0, 1), `asked` is the endpoint's own wish."""
        own = min(self.cap_sec, self.base_sec * 2.0 ** min(retry, 64))
        return max(own, asked or 0.0) + own * self.jitter * chance


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that an answer's headers ask to wait: a number, or an HTTP date; None when they do not say."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        with contextlib.suppress(ValueError):
            if math.isfinite(seconds := float(value) / scale):
                return max(0.0, seconds)
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds())


class RequestFailed(Exception):
    """One request failed; `asked_wait` is the endpoint's retry-after, in seconds."""

    def __init__(self, failure: Failure, asked_wait: float | None = None) -> None:
        super().__init__(str(failure.error))
        self.failure = failure
        self.asked_wait = asked_wait


async def retrying(
    once: Callable[[int], Awaitable[T]],
    policy: RetryPolicy,
    *,
    time_left: float,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    chance: Callable[[], float],
    elsewhere: Callable[[], bool] = lambda: False,
) -> T:
    """What `once(retry)` returns, after as many retries as the policy and the time allow.

    `elsewhere` tells whether another endpoint can be asked at once, without a wait. Raises the last failure's error,
    ContextOverflow or ModelError by subclass.
    """
    give_up_at = clock() + time_left
    retry = 0
    while True:
        try:
            return await once(retry)
        except RequestFailed as failed:
            error = failed.failure.error
            wait = 0.0 if elsewhere() else policy.wait(retry, chance(), failed.asked_wait)
            if not failed.failure.transient:
                raise error from None
            if retry >= policy.max_retries or clock() + wait >= give_up_at:
                raise type(error)(f"{error}, after {retry + 1} requests") from None
        await sleep(wait)
        retry += 1
