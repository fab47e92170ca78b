"""A job by groups: one denominator rule, bounds for what is missing, and no rate from too little."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import write_job

from evals.categories import UNCATEGORISED, load_categories
from evals.run import run_of_job, run_of_summary
from evals.scorecard import By, Ci, Scorecard, scorecard
from evals.stats.passk import OverTasks
from harness.failures import Outcome
from harness.job.progress import load_summary
from harness.job.summary import Finished, JobSummary
from harness.store.layout import JobPaths

KNOWN = load_categories()
INFRA, FAILED = Outcome.INFRA_ERROR, Outcome.AGENT_FAILED


def card(job: Path, by: By = By.CATEGORY, **options: object) -> Scorecard:
    return scorecard(load_summary(JobPaths(job))[0], by, KNOWN, **options)  # type: ignore[arg-type]


@pytest.mark.case("F1")
def test_infrastructure_is_missing_and_bounds_the_rate(tmp_path: Path) -> None:
    ends = [1.0] * 6 + [0.0] + [INFRA] * 3
    found = card(write_job(tmp_path / "j", {f"t{n}": [end] for n, end in enumerate(ends)})).all
    assert (found.successes, found.n, found.total, found.incomplete) == (6, 7, 10, False)
    assert found.rate == pytest.approx(6 / 7)
    assert (found.worst, found.best) == (0.6, 0.9)


@pytest.mark.case("F2")
def test_one_surviving_attempt_is_incomplete_not_a_hundred_percent(tmp_path: Path) -> None:
    ends = {f"t{n}": [INFRA] * 4 for n in range(5)}
    ends["t0"] = [1.0, INFRA, INFRA, INFRA]  # type: ignore[list-item]
    found = card(write_job(tmp_path / "j", ends)).all
    assert found.incomplete
    assert (found.rate, found.interval, found.reward) == (None, None, None)
    assert (found.worst, found.best) == (0.05, 1.0)


@pytest.mark.case("F3")
def test_the_agents_own_failures_are_failures(tmp_path: Path) -> None:
    ends = [1.0] * 108 + [0.0] * 40 + [FAILED] * 24
    found = card(write_job(tmp_path / "j", {f"t{n}": [end] for n, end in enumerate(ends)})).all
    assert (found.n, found.total) == (172, 172)
    assert found.rate == pytest.approx(0.6279, abs=5e-5)


def test_leaving_out_what_failed_flatters_and_the_bounds_hold_the_truth() -> None:
    """A rate of .6 in truth: easy tasks at 1, hard ones at .2, and two of five attempts on hard ones are lost."""
    easy, hard, lost = 100, 100, 40
    passed = easy + 0.2 * (hard - lost)
    assert passed / (easy + hard - lost) == pytest.approx(0.7)
    assert passed / (easy + hard) == pytest.approx(0.56)
    assert passed / (easy + hard) < 0.6 < (passed + lost) / (easy + hard)


@pytest.mark.case("F7")
def test_pass_at_k_says_over_how_many_tasks_it_is(tmp_path: Path) -> None:
    found = card(write_job(tmp_path / "j", {"a": [1.0, 0.0, 0.0, 0.0], "b": [1.0, INFRA, INFRA, INFRA]}))
    assert found.pass_at[2] == OverTasks(0.5, 1, 2)
    assert found.pass_hat[2] == OverTasks(0.0, 1, 2)
    assert found.flaky == ("a",)


def test_groups_follow_the_order_of_the_categories_and_fall_back_to_tags(tmp_path: Path) -> None:
    job = write_job(
        tmp_path / "j",
        {name: [1.0] for name in "abcd"},
        categories={"a": ["recovery", "memory"], "b": ["their own"]},
        tags={"a": ["x"], "c": ["x", "y"]},
    )
    assert [row.key for row in card(job).rows] == ["memory", "recovery", "their own", "x", "y", UNCATEGORISED]
    assert [row.label for row in card(job).rows][:2] == ["Memory", "Recovery"]
    assert [(row.key, row.n) for row in card(job, By.TAG).rows] == [("x", 2), ("y", 1), (UNCATEGORISED, 2)]
    assert [row.key for row in card(job, By.DIFFICULTY).rows] == ["unknown"]
    assert len(card(job, By.TASK).rows) == 4


def test_graded_rewards_have_an_interval_over_tasks_and_whole_ones_need_none(tmp_path: Path) -> None:
    graded = card(write_job(tmp_path / "g", {"a": [0.5, 0.75], "b": [1.0, 0.0]})).all
    assert graded.reward == pytest.approx(0.5625)
    assert graded.reward_interval is not None
    assert card(write_job(tmp_path / "w", {"a": [1.0, 1.0], "b": [1.0, 0.0]})).all.reward_interval is None


def test_the_exact_interval_is_for_single_attempts(tmp_path: Path) -> None:
    job = write_job(tmp_path / "j", {f"t{n}": [float(n < 7)] for n in range(10)})
    assert card(job, ci=Ci.EXACT).all.interval == pytest.approx((0.347547, 0.933260), abs=5e-7)
    assert card(job).all.interval == pytest.approx((0.396778, 0.892209), abs=5e-7)


OUTCOMES = st.sampled_from([*Outcome])


@pytest.mark.case("F10")
@given(st.lists(st.tuples(st.integers(0, 4), OUTCOMES, st.booleans()), min_size=1, max_size=30), st.integers(0, 5))
def test_one_rule_for_every_denominator(ends: list[tuple[int, Outcome, bool]], pending: int) -> None:
    summary = JobSummary(n_total=len(ends) + pending)
    for n, (task, outcome, passed) in enumerate(ends):
        summary.add(_finished(f"t{task}", n, outcome, float(passed) if outcome is Outcome.SCORED else None))
    found = scorecard(summary, By.TASK, KNOWN, min_coverage=0)
    run = run_of_summary(summary, label="j")
    assert sum(row.n for row in found.rows) == found.all.n == sum(task.counted for task in run.tasks.values())
    assert found.all.total == sum(summary.counts.values())
    assert found.all.successes == sum(task.passed for task in run.tasks.values())
    assert found.all.n == summary.rate().n
    assert (found.all.rate, found.all.interval) == (summary.rate().value, summary.rate().interval)
    for row in (*found.rows, found.all):
        if row.rate is not None and row.worst is not None and row.best is not None:
            assert row.worst <= row.rate <= row.best


def _finished(task: str, attempt: int, outcome: Outcome, reward: float | None) -> Finished:
    empty = dict.fromkeys(
        ("source", "rewards", "tag", "category", "exception", "seconds", "tokens_in", "tokens_cached", "tokens_out")
    )
    return Finished(
        **empty,  # type: ignore[arg-type]
        name=f"{task}__{attempt}",
        task_name=task,
        attempt=attempt,
        retry=0,
        outcome=outcome,
        reward=reward,
        categories=(),
        cost=None,
        digest=task,
        difficulty=None,
        task_tags=(),
        agent="a",
        model=None,
    )


def test_a_run_knows_the_tasks_that_were_asked_for_and_never_began(tmp_path: Path) -> None:
    job = write_job(tmp_path / "j", {"a": [1.0, INFRA]})
    summary, _ = load_summary(JobPaths(job))
    run = run_of_summary(summary, label="j", planned={"a": ("digest of a", 3), "b": ("digest of b", 3)})
    assert {name: (task.counted, task.total) for name, task in run.tasks.items()} == {"a": (1, 3), "b": (0, 3)}
    assert (run.missing, run.attempts) == (5, 3)
    assert run_of_job(job).dataset_digest != run.dataset_digest


def test_what_a_stop_rule_spared_is_not_missing_and_what_was_cut_off_is() -> None:
    summary = JobSummary(n_total=40)
    for n in range(10):
        summary.add(_finished(f"t{n}", 1, Outcome.SCORED, float(n < 7)))
    cut = scorecard(summary, By.CATEGORY, KNOWN).all
    assert (cut.n, cut.total, cut.rate) == (10, 40, None)
    assert summary.rate().incomplete
    summary.decided = "the success rate is below 80 %"
    ended = scorecard(summary, By.CATEGORY, KNOWN).all
    assert (ended.n, ended.total, ended.rate, ended.worst) == (10, 10, 0.7, 0.7)
    assert not summary.rate().incomplete
    assert summary.counts["pending"] == 30, "they are counted all the same"
