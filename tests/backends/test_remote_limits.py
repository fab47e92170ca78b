"""What a plan allows, the lease of a sandbox, and the repetition of calls: all by a clock that the test turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import SandboxAuthError, SandboxError, SandboxQuotaError, SandboxTimeout, SandboxUnavailable
from backends.remote.lease import Lease
from backends.remote.limits import Slots, TokenBucket
from backends.remote.retry import pause, repeated


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


async def test_a_place_is_given_to_the_next_in_line_once_it_is_released() -> None:
    slots = Slots(1)
    first = await slots.take()
    waiting = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    first.release()
    first.release()
    await waiting
    another = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    assert not another.done(), "a second release of the same place gave one away that was taken"
    another.cancel()


def test_no_place_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Slots(0)


async def test_five_at_a_rate_of_two_pass_at_0_half_1_one_and_a_half_and_2() -> None:
    clock, passed = Clock(), []
    bucket = TokenBucket(2, clock=clock, sleep=clock.sleep)
    for _ in range(5):
        await bucket.take()
        passed.append(clock.now)
    assert passed == [0, 0.5, 1.0, 1.5, 2.0]


async def test_a_burst_passes_at_once_and_is_earned_again() -> None:
    clock = Clock()
    bucket = TokenBucket(1, burst=3, clock=clock, sleep=clock.sleep)
    for _ in range(4):
        await bucket.take()
    assert clock.now == 1.0
    clock.now = 100.0
    for _ in range(3):
        await bucket.take()
    assert clock.now == 100.0


@given(rate=st.floats(0.1, 50), burst=st.integers(1, 10), gaps=st.lists(st.floats(0, 3), max_size=40))
def test_no_window_ever_holds_more_than_the_burst_and_what_the_rate_adds(
    rate: float, burst: int, gaps: list[float]
) -> None:
    async def run() -> list[float]:
        clock, passed = Clock(), []
        bucket = TokenBucket(rate, burst, clock=clock, sleep=clock.sleep)
        for gap in gaps:
            clock.now += gap
            await bucket.take()
            passed.append(clock.now)
        return passed

    passed = asyncio.run(run())
    for first, begin in enumerate(passed):
        for last in range(first, len(passed)):
            assert last - first + 1 <= burst + (passed[last] - begin) * rate + 1e-6


def _lease(
    clock: Clock, ttl: float, longest: float, fail: Callable[[int], None] = lambda n: None
) -> tuple[Lease, list]:
    asked: list[tuple[float, float]] = []

    async def extend(seconds: float) -> None:
        asked.append((clock.now, seconds))
        fail(len(asked))

    return Lease(extend, ttl=ttl, longest=longest, clock=clock, sleep=clock.sleep), asked


async def _until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


async def test_a_long_life_is_a_chain_of_short_leases_that_ends_on_time() -> None:
    clock = Clock()
    lease, asked = _lease(clock, ttl=100, longest=30)
    assert lease.first == 30
    lease.start()
    await _until(lambda: clock.now >= 100)
    await lease.stop()
    assert [at for at, _ in asked] == [10, 20, 30, 40, 50, 60, 70, 80, 90]
    assert max(seconds for _, seconds in asked) == 30, "never more than the longest lease"
    assert all(at + seconds <= 100 for at, seconds in asked), "never beyond the time to live"


async def test_a_short_life_needs_no_renewal_and_renew_restarts_it() -> None:
    clock = Clock()
    lease, asked = _lease(clock, ttl=20, longest=30)
    lease.start()
    clock.now = 15
    await lease.renew()
    await lease.stop()
    assert (asked, clock.slept) == ([(15, 20)], [])


async def test_a_renewal_that_fails_is_made_good_by_the_next_unless_it_is_hopeless() -> None:
    clock = Clock()

    def fail(number: int) -> None:
        if number == 1:
            raise SandboxUnavailable("a blip")
        if number == 3:
            raise SandboxAuthError("the key was revoked")

    lease, asked = _lease(clock, ttl=1000, longest=30, fail=fail)
    lease.start()
    await _until(lambda: len(asked) == 3)
    await asyncio.sleep(0.01)
    assert len(asked) == 3
    await lease.stop()


def _failing(*errors: SandboxError) -> tuple[Callable[[], Awaitable[str]], list[int]]:
    calls: list[int] = []

    async def work() -> str:
        calls.append(1)
        if len(calls) <= len(errors):
            raise errors[len(calls) - 1]
        return "done"

    return work, calls


async def test_what_may_pass_is_repeated_with_growing_pauses() -> None:
    clock = Clock()
    work, calls = _failing(SandboxUnavailable("x"), SandboxQuotaError("y"))
    assert await repeated(work, sleep=clock.sleep, random_number=lambda: 1.0) == "done"
    assert (len(calls), clock.slept) == (3, [0.5, 1.0])


@pytest.mark.parametrize(("asked", "slept"), [(None, 0.5), (0.1, 0.5), (7.0, 7.0), (3600.0, 120.0)])
async def test_a_provider_that_asks_for_time_is_given_it(asked: float | None, slept: float) -> None:
    clock = Clock()
    error = SandboxQuotaError("slow down")
    error.retry_after = asked
    work, _ = _failing(error)
    assert await repeated(work, sleep=clock.sleep, random_number=lambda: 1.0) == "done"
    assert clock.slept == [slept]


@pytest.mark.parametrize("error", [SandboxAuthError("no"), SandboxTimeout("late"), SandboxError("odd")])
async def test_what_will_not_pass_is_raised_at_once(error: SandboxError) -> None:
    work, calls = _failing(error)
    with pytest.raises(type(error)):
        await repeated(work)
    assert len(calls) == 1


async def test_the_last_error_is_raised_when_all_attempts_are_used() -> None:
    clock = Clock()
    work, calls = _failing(*(SandboxUnavailable(str(number)) for number in range(9)))
    with pytest.raises(SandboxUnavailable, match="3"):
        await repeated(work, sleep=clock.sleep)
    assert len(calls) == 4


def test_pauses_never_exceed_a_quarter_of_a_minute_and_half_of_each_is_chance() -> None:
    assert [pause(n, lambda: 1.0) for n in (1, 2, 3, 6, 60)] == [0.5, 1.0, 2.0, 15.0, 15.0]
    assert pause(1, lambda: 0.0) == 0.25
