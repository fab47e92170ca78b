"""The numbers of a job: they add up, exclude alike, and never make a zero of what is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.failures import Outcome
from harness.job.interval import clustered_wilson, effective_n, wilson
from harness.job.summary import Finished, JobSummary

FINISHED = Finished(
    name="t__1",
    task_name="t",
    source=None,
    attempt=1,
    retry=0,
    outcome=Outcome.SCORED,
    reward=1.0,
    rewards={"reward": 1.0},
    tag=None,
    category=None,
    exception=None,
    categories=(),
    seconds=1.0,
    tokens_in=None,
    tokens_cached=None,
    tokens_out=None,
    cost=None,
    digest="d",
    difficulty=None,
    task_tags=(),
    agent="a",
    model=None,
)


def summary_of(*counts: tuple[Outcome, float | None, int], total: int | None = None) -> JobSummary:
    ended = [(outcome, reward) for outcome, reward, count in counts for _ in range(count)]
    summary = JobSummary(n_total=total or len(ended))
    for n, (outcome, reward) in enumerate(ended):
        summary.add(replace(FINISHED, name=f"t{n}__1", task_name=f"t{n}", outcome=outcome, reward=reward))
    return summary


@pytest.mark.case("F5")
@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (0, 10, 0.0, 0.277533),
        (1, 10, 0.017876, 0.404150),
        (5, 10, 0.236593, 0.763407),
        (7, 10, 0.396778, 0.892209),
        (10, 10, 0.722467, 1.0),
        (1, 1, 0.206549, 1.0),
        (3, 20, 0.052369, 0.360419),
        (65, 90, 0.622048, 0.804203),
        (72, 100, 0.625120, 0.798603),
        (95, 100, 0.888250, 0.978456),
        (999, 1000, 0.994357, 0.999823),
        (0, 5000, 0.0, 0.000768),
    ],
)
def test_wilson_agrees_with_the_reference_values(successes: int, n: int, low: float, high: float) -> None:
    interval = wilson(successes, n)
    assert interval == pytest.approx((low, high), abs=1e-6)


@pytest.mark.case("F6")
def test_nothing_measured_is_unknown_and_nonsense_is_refused() -> None:
    assert wilson(0, 0) is None
    for successes, n in ((11, 10), (-1, 10), (5, -10), (float("nan"), 10)):
        with pytest.raises(ValueError, match="no success rate"):
            wilson(successes, n)


def test_attempts_of_one_task_are_worth_less_than_as_many_tasks() -> None:
    """Eight tasks of four attempts, after Korn and Graubard: 12.44 effective attempts, not 32."""
    groups = [[True] * k + [False] * (4 - k) for k in (4, 4, 3, 2, 2, 1, 0, 0)]
    assert effective_n(groups) == pytest.approx(12.4444, abs=1e-4)
    assert clustered_wilson(groups) == pytest.approx((0.221604, 0.778396), abs=1e-6)


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=12))
def test_the_interval_holds_the_rate_and_lies_in_the_unit_interval(groups: list[list[bool]]) -> None:
    interval = clustered_wilson(groups)
    assert interval is not None
    rate = sum(map(sum, groups)) / sum(map(len, groups))
    assert 0 <= interval[0] <= rate + 1e-12
    assert rate - 1e-12 <= interval[1] <= 1


@pytest.mark.case("F1")
def test_infrastructure_leaves_the_rate_and_stands_in_the_worst_case() -> None:
    summary = summary_of((Outcome.SCORED, 1.0, 6), (Outcome.SCORED, 0.0, 1), (Outcome.INFRA_ERROR, None, 3))
    rate = summary.rate()
    assert (rate.successes, rate.n, rate.total) == (6, 7, 10)
    assert rate.value == pytest.approx(6 / 7)
    assert (rate.worst_case, rate.coverage) == (0.6, 0.7)
    assert summary.infra_rate == pytest.approx(0.3)


@pytest.mark.case("F3")
def test_the_agents_own_failures_stay_in_the_denominator() -> None:
    summary = summary_of((Outcome.SCORED, 1.0, 108), (Outcome.SCORED, 0.0, 40), (Outcome.AGENT_FAILED, None, 24))
    assert summary.rate().value == pytest.approx(108 / 172)


@pytest.mark.case("F6")
def test_a_job_that_only_infrastructure_touched_has_no_rate() -> None:
    rate = summary_of((Outcome.INFRA_ERROR, None, 4)).rate()
    assert (rate.value, rate.interval, rate.mean_reward) == (None, None, None)


@pytest.mark.case("F4")
@pytest.mark.case("D9")
def test_executions_of_one_attempt_are_one_attempt_and_all_that_they_cost() -> None:
    summary = JobSummary(n_total=1)
    for retry, (outcome, cost) in enumerate(
        [(Outcome.INFRA_ERROR, 1.0), (Outcome.INFRA_ERROR, None), (Outcome.SCORED, 2.0)]
    ):
        summary.add(replace(FINISHED, retry=retry, outcome=outcome, cost=cost, reward=1.0 if cost == 2.0 else None))
    assert (len(summary.last), summary.n_retries, summary.spent["cost"]) == (1, 2, 3.0)
    assert summary.rate().value == 1.0


@pytest.mark.case("F10")
@given(st.lists(st.sampled_from(list(Outcome)), max_size=40), st.integers(0, 10))
def test_the_counts_add_up(outcomes: list[Outcome], pending: int) -> None:
    summary = summary_of(*((outcome, None, 1) for outcome in outcomes), total=len(outcomes) + pending or 1)
    assert sum(summary.counts.values()) == summary.n_total


def test_a_category_counts_its_own_tasks_only() -> None:
    summary = JobSummary(n_total=2)
    summary.add(replace(FINISHED, task_name="a", categories=("coding",)))
    summary.add(replace(FINISHED, task_name="b", categories=("memory", "coding"), reward=0.0))
    assert summary.categories() == ["coding", "memory"]
    assert (summary.rate("coding").value, summary.rate("memory").value, summary.rate("coding").total) == (0.5, 0.0, 2)
