"""Bounded, in order, retries without a slot, and stopping in two degrees."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.failures import FailureCategory, Layer, Outcome
from harness.job.plan import Execution, owed, plan
from harness.job.scheduler import RetryRule, Scheduler, Stopping
from harness.records import AgentInfo, Failure, TrialResult
from harness.task.model import BrokenTask, Environment, Limit, Step, Task
from harness.trial.spec import TrialSpec

NO_WAIT = RetryRule(max_retries=2, base_sec=0.0)


def task(name: str) -> Task:
    limit = Limit(value=60.0, origin="default")
    step = Step(name=None, instruction="", tests=(), solution_dir=None, agent_timeout=limit, verifier_timeout=limit)
    return Task(name=name, path=Path(name), digest=f"sha256:{name}", environment=Environment(image="i"), steps=(step,))


def result(spec: TrialSpec, *, retryable: bool = False, tag: str = "x") -> TrialResult:
    failure = Failure(
        category=FailureCategory.INFRA_SANDBOX, layer=Layer.SANDBOX, tag=tag, retryable=retryable, trainable=False
    )
    return TrialResult(
        id="0",
        task_name=spec.task.name,
        trial_name=spec.name,
        trial_uri="",
        task_id={},
        task_checksum="",
        config={},
        agent_info=AgentInfo(name="a", version="1"),
        outcome=Outcome.INFRA_ERROR if retryable else Outcome.SCORED,
        reward=None if retryable else 1.0,
        failure=failure if retryable or tag != "x" else None,
        attempt=spec.attempt,
        retry=spec.retry,
    )


async def run(
    specs: list[TrialSpec],
    run_one: Callable[[TrialSpec], Awaitable[TrialResult]],
    *,
    concurrency: int = 2,
    retry: RetryRule = NO_WAIT,
) -> Scheduler:
    scheduler = Scheduler(run_one, concurrency=concurrency, retry=retry)
    await asyncio.wait_for(scheduler.run(specs), 20)
    return scheduler


def test_the_attempts_of_a_task_stand_next_to_each_other_and_a_broken_task_has_one() -> None:
    broken = BrokenTask(name="broken", path=Path("broken"), source=None, reason="no")
    specs = plan([task("a"), broken, task("b")], 2)
    assert [(spec.task.name, spec.attempt) for spec in specs] == [("a", 1), ("a", 2), ("broken", 1), ("b", 1), ("b", 2)]


@pytest.mark.case("E11")
def test_the_attempts_of_a_task_share_a_group_that_names_the_task_and_its_version_only() -> None:
    assert len({spec.group_id for spec in plan([task("a")], 4)}) == 1
    assert len({spec.group_id for spec in plan([task("a"), task("b")], 2)}) == 2
    assert len({spec.seed(0) for spec in plan([task("a")], 4)}) == 4


@pytest.mark.case("D1")
def test_resuming_owes_exactly_what_has_no_final_outcome() -> None:
    specs = plan([task("a")], 5)
    executions = [
        Execution("a", 1, 0, Outcome.SCORED),
        Execution("a", 2, 0, Outcome.AGENT_FAILED),
        Execution("a", 3, 0, Outcome.INFRA_ERROR),
        Execution("a", 4, 0, None),
        Execution("a", 4, 1, Outcome.CANCELLED),
    ]
    assert [(spec.attempt, spec.retry) for spec in owed(specs, executions)] == [(3, 1), (4, 2), (5, 0)]
    assert [spec.attempt for spec in owed(specs, executions, keep_errors=True)] == [4, 5]


@pytest.mark.case("D6")
def test_one_of_four_attempts_present_leaves_three() -> None:
    assert [s.attempt for s in owed(plan([task("a")], 4), [Execution("a", 1, 0, Outcome.SCORED)])] == [2, 3, 4]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.integers(0, 3), st.sampled_from([None, *Outcome])),
        max_size=30,
    )
)
def test_what_is_done_and_what_is_owed_are_exactly_the_plan(found: list[tuple[str, int, int, Outcome | None]]) -> None:
    specs = plan([task(name) for name in "abc"], 3)
    executions = [Execution(*each) for each in found]
    final = {Outcome.SCORED, Outcome.AGENT_FAILED, Outcome.TASK_ERROR}
    done = {(e.task_name, e.attempt) for e in executions if e.outcome in final}
    remaining = owed(specs, executions)
    assert {(s.task.name, s.attempt) for s in remaining} == {(s.task.name, s.attempt) for s in specs} - done
    taken = {(e.task_name, e.attempt, e.retry) for e in executions}
    assert not taken & {(s.task.name, s.attempt, s.retry) for s in remaining}


async def test_never_more_than_the_bound_run_at_a_time_and_they_start_in_order() -> None:
    running, peak, order = 0, 0, []

    async def one(spec: TrialSpec) -> TrialResult:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        order.append(spec.task.name)
        await asyncio.sleep(0)
        running -= 1
        return result(spec)

    await run(plan([task(f"t{n:02}") for n in range(10)], 1), one, concurrency=3)
    assert peak == 3
    assert order == sorted(order)


@pytest.mark.case("D9")
async def test_only_what_infrastructure_failed_is_repeated_each_time_under_a_new_number() -> None:
    seen: list[tuple[str, int]] = []

    async def one(spec: TrialSpec) -> TrialResult:
        seen.append((spec.task.name, spec.retry))
        return result(spec, retryable=spec.task.name == "bad" and spec.retry < 1)

    await run(plan([task("bad"), task("good")], 1), one, concurrency=1)
    assert sorted(seen) == [("bad", 0), ("bad", 1), ("good", 0)]


async def test_retries_are_bounded_and_count_from_where_the_resumed_run_began() -> None:
    retries: list[int] = []

    async def one(spec: TrialSpec) -> TrialResult:
        retries.append(spec.retry)
        return result(spec, retryable=True)

    await run([TrialSpec(task=task("a"), attempt=1, retry=5)], one)
    assert retries == [5, 6, 7]


async def test_waiting_for_a_retry_holds_no_slot() -> None:
    order: list[str] = []

    async def one(spec: TrialSpec) -> TrialResult:
        order.append(f"{spec.task.name}{spec.retry}")
        return result(spec, retryable=spec.task.name == "a" and spec.retry == 0)

    await run(plan([task(n) for n in "abc"], 1), one, concurrency=1, retry=RetryRule(1, 0.05, lambda: 1.0))
    assert order == ["a0", "b0", "c0", "a1"]


def test_the_pause_grows_and_has_an_end() -> None:
    rule = RetryRule(max_retries=9, base_sec=2.0, jitter=lambda: 1.0)
    failed = result(TrialSpec(task=task("a"), attempt=1), retryable=True)
    assert [rule.delay(failed, n) for n in (0, 1, 2, 5, 9)] == [2.0, 4.0, 8.0, 60.0, None]


async def test_draining_finishes_what_runs_and_starts_nothing_new() -> None:
    finished: list[str] = []

    async def one(spec: TrialSpec) -> TrialResult:
        await asyncio.sleep(0.02)
        finished.append(spec.task.name)
        return result(spec)

    scheduler = Scheduler(one, concurrency=2, retry=NO_WAIT)
    job = asyncio.ensure_future(scheduler.run(plan([task(f"t{n}") for n in range(6)], 1)))
    await asyncio.sleep(0.005)
    scheduler.stop(Stopping.DRAIN)
    await asyncio.wait_for(job, 2)
    assert finished == ["t0", "t1"]


async def test_stopping_now_cancels_what_runs() -> None:
    cancelled: list[str] = []

    async def one(spec: TrialSpec) -> TrialResult:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(spec.task.name)
            raise
        raise AssertionError

    scheduler = Scheduler(one, concurrency=2, retry=NO_WAIT)
    job = asyncio.ensure_future(scheduler.run(plan([task(f"t{n}") for n in range(6)], 1)))
    await asyncio.sleep(0.01)
    scheduler.stop(Stopping.DRAIN)
    scheduler.stop(Stopping.NOW)
    await asyncio.wait_for(job, 2)
    assert sorted(cancelled) == ["t0", "t1"]


async def test_an_exception_stops_everything_and_comes_out() -> None:
    async def one(spec: TrialSpec) -> TrialResult:
        if spec.task.name == "t1":
            raise OSError(28, "no space")
        await asyncio.sleep(60)
        raise AssertionError

    with pytest.raises(OSError, match="no space"):
        await run(plan([task(f"t{n}") for n in range(6)], 1), one)


@pytest.mark.case("A14")
async def test_a_result_that_makes_going_on_pointless_drains() -> None:
    started: list[str] = []

    async def one(spec: TrialSpec) -> TrialResult:
        started.append(spec.task.name)
        return result(spec, tag="disk_full" if spec.task.name == "t1" else "x")

    scheduler = Scheduler(
        one, concurrency=1, retry=NO_WAIT, stop_on=lambda r: r.failure is not None and r.failure.tag == "disk_full"
    )
    await asyncio.wait_for(scheduler.run(plan([task(f"t{n}") for n in range(5)], 1)), 2)
    assert started == ["t0", "t1"]


@pytest.mark.case("D11")
async def test_five_hundred_flaky_trials_at_sixty_four_a_time_all_end() -> None:
    dice = random.Random(0)
    ended: Counter[str] = Counter()

    async def one(spec: TrialSpec) -> TrialResult:
        await asyncio.sleep(dice.random() / 500)
        bad = dice.random() < 0.15
        if not bad or spec.retry == 2:
            ended[spec.task.name] += 1
        return result(spec, retryable=bad)

    await run(plan([task(f"t{n}") for n in range(500)], 1), one, concurrency=64)
    assert len(ended) == 500
    assert set(ended.values()) == {1}
