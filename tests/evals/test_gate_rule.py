"""The gate's judgement: valid or not, worse or not, and never decided by what is missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import run_of, task_run, uniform

from evals.categories import load_categories
from evals.gate.judge import GateResult, judge
from evals.gate.policy import Floor, OnInconclusive, Policy, share
from evals.gate.quarantine import Entry
from evals.gate.rule import Verdict
from evals.run import Run
from harness.errors import UsageError

TODAY = date(2026, 6, 1)
KNOWN = load_categories()


def judged(base: Run, new: Run, *, quarantine: Any = (), **policy: Any) -> GateResult:
    return judge(base, new, Policy(**policy), KNOWN, quarantine=quarantine, today=TODAY)


def test_the_same_result_twice_on_enough_tasks_passes() -> None:
    result = judged(uniform(100, 240, 3), uniform(100, 240, 3))
    assert (result.verdict, result.exit_code) == (Verdict.PASS, 0)
    assert "a drop of 5.0pp is ruled out" in result.reasons[0]


def test_a_clear_drop_fails_and_says_how_sure_it_is() -> None:
    result = judged(uniform(100, 240, 3), uniform(100, 200, 3))
    assert (result.verdict, result.exit_code) == (Verdict.FAIL, 1)
    assert "fell by 13.3pp on 100 tasks" in result.reasons[0]
    assert result.reading is not None
    assert result.reading.p < 1e-6


def test_a_certain_but_tiny_drop_is_no_regression() -> None:
    base, new = uniform(1000, 3000, 3), uniform(1000, 2990, 3)
    result = judged(base, new)
    assert result.reading is not None
    assert result.reading.p < 0.05
    assert result.verdict is Verdict.PASS
    assert judged(base, new, min_effect=0.001).verdict is Verdict.FAIL


def test_an_improvement_passes() -> None:
    assert judged(uniform(100, 200, 3), uniform(100, 240, 3)).verdict is Verdict.PASS


def test_too_few_attempts_leave_it_open_and_it_says_what_more_would_buy() -> None:
    base = run_of([task_run(f"t{n}", n % 2, 1) for n in range(40)])
    new = run_of([task_run(f"t{n}", (n // 2) % 2, 1) for n in range(40)])
    result = judged(base, new)
    assert (result.verdict, result.exit_code) == (Verdict.INCONCLUSIVE, 0)
    assert result.outlook is not None
    assert result.outlook.mde > 0.15
    assert result.outlook.chance < result.outlook.chance_more
    assert result.outlook.needed is not None
    assert result.outlook.needed > 10
    assert judged(base, new, on_inconclusive=OnInconclusive.FAIL).exit_code == 4
    assert judged(base, new, on_inconclusive=OnInconclusive.PASS).exit_code == 0


@pytest.mark.case("F9")
def test_runs_of_different_tasks_are_refused_or_intersected_and_what_is_left_out_is_said() -> None:
    base = run_of([task_run(f"t{n}", 1, 1) for n in range(12)])
    tasks = [task_run(f"t{n}", 1, 1) for n in range(1, 12)]
    tasks[0] = replace(tasks[0], digest="edited")
    new = run_of([*tasks, task_run("extra", 0, 1)])
    result = judged(base, new)
    assert (result.verdict, result.exit_code) == (Verdict.INVALID, 3)
    assert "1 only in the baseline: t0; 1 only in the job: extra; 1 edited: t1" in result.reasons[0]
    shared = judged(base, new, intersect=True)
    assert shared.verdict is not Verdict.INVALID
    assert shared.comparison.overall is not None
    assert shared.comparison.overall.tasks == 10
    assert any("left out: 1 only in the baseline: t0" in note for note in shared.notes)


def test_a_renamed_task_is_still_the_same_task() -> None:
    base = uniform(20, 40, 2)
    new = run_of([replace(task, name=f"renamed-{task.name}") for task in base.tasks.values()])
    assert judged(base, new).comparison.pairing.complete


def test_infrastructure_above_its_limit_is_invalid_never_a_regression() -> None:
    base = uniform(50, 150, 3)
    tasks = [task_run(f"t{n:03}", 0 if n < 5 else 3, 0 if n < 5 else 3, 3) for n in range(50)]
    result = judged(base, run_of(tasks))
    assert (result.verdict, result.exit_code) == (Verdict.INVALID, 3)
    assert any("15 of 150 attempts of the job say nothing of the agent" in reason for reason in result.reasons)
    assert any("5 of 50 tasks have no attempt that counts" in reason for reason in result.reasons)


def test_missing_attempts_that_could_decide_it_leave_it_open() -> None:
    base = run_of([task_run(f"t{n:03}", 1, 1) for n in range(100)])
    tasks = [task_run(f"t{n:03}", 0 if n < 4 else 1, 1) for n in range(95)]
    new = run_of([*tasks, *(task_run(f"t{n:03}", 0, 0, 1) for n in range(95, 100))])
    result = judged(base, new, max_missing_tasks=0.1)
    assert (result.worst, result.best) == (Verdict.FAIL, Verdict.INCONCLUSIVE)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "fail if all failed, inconclusive if all passed" in result.reasons[0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1)), min_size=12, max_size=40))
def test_a_verdict_on_missing_attempts_holds_whatever_they_would_have_been(
    tasks: list[tuple[int, int, int]],
) -> None:
    base = run_of([task_run(f"t{n}", passed, 3) for n, (passed, _, _) in enumerate(tasks)])
    new = run_of([task_run(f"t{n}", min(p, 3 - m), 3 - m, 3) for n, (_, p, m) in enumerate(tasks)])
    lenient = {"max_infra": 1.0, "max_missing_tasks": 1.0}
    result = judged(base, new, **lenient)
    if result.verdict in (Verdict.PASS, Verdict.FAIL):
        for passes in (True, False):
            whole = [
                replace(task, counted=3, passed=task.passed + (task.missing if passes else 0))
                for task in new.tasks.values()
            ]
            assert judged(base, run_of(whole), **lenient).verdict is result.verdict


def test_too_few_tasks_are_not_judged() -> None:
    result = judged(uniform(9, 9, 1), uniform(9, 0, 1))
    assert result.verdict is Verdict.INVALID
    assert "only 9 tasks can be compared, needed are 10" in result.reasons[0]


@pytest.mark.case("F6")
def test_a_run_in_which_nothing_counts_is_invalid_and_has_no_numbers() -> None:
    result = judged(uniform(20, 20, 1), run_of([task_run(f"t{n:03}", 0, 0, 1) for n in range(20)]))
    assert result.exit_code == 3
    assert (result.comparison.overall, result.reading, result.outlook) == (None, None, None)


def test_other_numbers_of_attempts_or_pass_marks_are_refused() -> None:
    assert "attempts per task differ" in judged(uniform(20, 60, 3), uniform(20, 40, 2)).reasons[0]
    assert judged(uniform(20, 60, 3), uniform(20, 40, 2), any_attempts=True).verdict is not Verdict.INVALID
    assert "pass mark differs" in judged(uniform(20, 60, 3), uniform(20, 60, 3, pass_mark=0.5)).reasons[0]


def test_a_floor_fails_only_where_even_the_upper_bound_is_below_it() -> None:
    base, new = uniform(100, 180, 3), uniform(100, 180, 3)
    assert judged(base, new, floor=0.65).verdict is Verdict.PASS
    result = judged(base, new, floor=0.75)
    assert result.verdict is Verdict.FAIL
    assert "the success rate is below its floor of 75.0%" in result.reasons[0]


def in_category(run: Run, key: str, names: int) -> Run:
    tasks = [replace(t, categories=(key if n < names else "other",)) for n, t in enumerate(run.tasks.values())]
    return run_of(tasks)


def test_a_category_gates_by_its_floor_or_when_it_is_pinned() -> None:
    base = in_category(uniform(200, 600, 3), "coding", 40)
    worse = run_of(
        [replace(task, passed=3 if n >= 12 else 1) for n, task in enumerate(base.tasks.values())],
    )
    lenient = {"min_effect": 0.1, "margin": 0.1}
    assert judged(base, worse, **lenient).verdict is Verdict.PASS
    pinned = judged(base, worse, min_effect=0.04, margin=0.1, pinned=("coding", "other"))
    assert pinned.verdict is Verdict.FAIL
    assert any("pinned category coding fell by 20.0pp" in reason for reason in pinned.reasons)
    assert judged(base, worse, **lenient, floors=(Floor("coding", 0.95),)).verdict is Verdict.FAIL
    assert judged(base, worse, **lenient, floors=(Floor("coding", 0.95, 41),)).verdict is Verdict.PASS


@pytest.mark.case("F8")
def test_a_demand_on_a_category_that_has_no_task_is_not_met_silently() -> None:
    base = uniform(20, 60, 3)
    assert judged(base, base, pinned=("codng",)).verdict is Verdict.INVALID
    assert judged(base, base, floors=(Floor("codng", 0.1),)).verdict is Verdict.INVALID


def test_a_task_that_must_pass_fails_the_gate_when_every_attempt_fails() -> None:
    base = uniform(100, 300, 3)
    broken = run_of([replace(t, passed=0) if t.name == "t007" else t for t in base.tasks.values()])
    shaky = run_of([replace(t, passed=1) if t.name == "t007" else t for t in base.tasks.values()])
    assert judged(base, broken).verdict is Verdict.PASS
    result = judged(base, broken, must_pass=("t00*",))
    assert (result.verdict, result.reasons) == (
        Verdict.FAIL,
        ("t007 must pass: 3 of 3 attempts passed before, 0 of 3 now",),
    )
    assert judged(base, shaky, must_pass=("t00*",)).verdict is Verdict.PASS
    tagged = run_of([replace(t, tags=("must-pass",)) for t in broken.tasks.values()])
    assert judged(base, tagged).verdict is Verdict.FAIL


def test_a_must_pass_task_whose_attempts_are_missing_is_not_a_regression() -> None:
    base = uniform(100, 300, 3)
    lost = run_of([replace(t, passed=0, counted=2) if t.name == "t007" else t for t in base.tasks.values()])
    assert judged(base, lost, must_pass=("t007",)).verdict is Verdict.INCONCLUSIVE


def test_cost_has_a_limit_and_an_unknown_cost_cannot_keep_it() -> None:
    base = run_of([replace(task, cost=3.0, priced=3) for task in uniform(50, 150, 3).tasks.values()])
    dear = run_of([replace(task, cost=3.9, priced=3) for task in base.tasks.values()])
    assert judged(base, dear, max_cost_increase=0.5).verdict is Verdict.PASS
    result = judged(base, dear, max_cost_increase=0.2)
    assert result.verdict is Verdict.FAIL
    assert "the cost per attempt rose by 30%" in result.reasons[0]
    assert judged(base, uniform(50, 150, 3), max_cost_increase=0.2).verdict is Verdict.INVALID


def test_quarantined_tasks_do_not_count_until_their_day_is_over() -> None:
    base = uniform(100, 300, 3)
    broken = run_of([replace(t, passed=0) if t.name < "t010" else t for t in base.tasks.values()])
    assert judged(base, broken).verdict is Verdict.FAIL
    entry = Entry("t00*", "the mirror is down", date(2026, 6, 1))
    result = judged(base, broken, quarantine=[entry])
    assert result.verdict is Verdict.PASS
    assert result.quarantined["t003"] == "the mirror is down (until 2026-06-01)"
    expired = judged(base, broken, quarantine=[replace(entry, until=date(2026, 5, 31))])
    assert expired.verdict is Verdict.FAIL
    assert "quarantine of t00* expired on 2026-05-31; it counts again" in expired.notes
    assert (
        "quarantine of nothing matches no task" in judged(base, base, quarantine=[replace(entry, task="nothing")]).notes
    )


def test_unequal_trouble_and_too_few_changes_are_noted() -> None:
    base = uniform(50, 150, 3)
    new = run_of([replace(t, counted=2, passed=2) if n < 7 else t for n, t in enumerate(base.tasks.values())])
    assert any("unequally often" in note for note in judged(base, new).notes)
    one = run_of([replace(t, passed=0) if t.name == "t000" else t for t in base.tasks.values()])
    assert any("only 1 tasks changed" in note for note in judged(base, one).notes)


@pytest.mark.parametrize(
    ("text", "value"), [("0.05", 0.05), ("5%", 0.05), ("5pp", 0.05), (" 2.5 pp ", 0.025), ("1", 1)]
)
def test_shares_are_written_as_people_write_them(text: str, value: float) -> None:
    assert share(text, "--x") == pytest.approx(value)


@pytest.mark.parametrize("text", ["5", "-1%", "x", "", "nan", "101%", "1e-2"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--x"):
        share(text, "--x")


def test_floors_are_parsed() -> None:
    assert Floor.parse("coding>=0.8") == Floor("coding", 0.8)
    assert Floor.parse("file operations >= 80% : 30") == Floor("file operations", 0.8, 30)
    with pytest.raises(UsageError, match="write CATEGORY>=RATE"):
        Floor.parse("coding>0.8")
