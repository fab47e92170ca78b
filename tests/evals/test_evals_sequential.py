"""`harness run --sequential`: the rule by its counts, and the whole way from the command line to the job's record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import make_task
from command_line import REPO, harness

from evals.sequential import success_rate
from harness.errors import UsageError
from harness.job.early import Decision, TaskCounts


def decide(*tasks: TaskCounts, threshold: float = 0.7, alpha: float = 0.05) -> Decision | None:
    rule = success_rate(threshold, alpha)
    return next((decision for task in tasks if (decision := rule.add(task)) is not None), None)


def test_enough_passes_decide_above_and_enough_failures_below() -> None:
    above, below = decide(*[TaskCounts(3, 3, 3)] * 40), decide(*[TaskCounts(0, 3, 3)] * 40)
    assert above is not None
    assert below is not None
    assert (above.above, below.above) == (True, False)
    assert above.e_value >= 20
    assert below.tasks < above.tasks < 20
    assert str(below).startswith("the success rate is below 70.0%: e-value ")


def test_a_task_weighs_the_same_whatever_its_attempts() -> None:
    once, often = decide(*[TaskCounts(1, 1, 1)] * 40), decide(*[TaskCounts(9, 9, 9)] * 40)
    assert once == often


def test_a_rate_at_the_threshold_is_not_decided() -> None:
    assert decide(*[TaskCounts(7, 10, 10)] * 500) is None


def test_missing_attempts_delay_a_decision_and_never_make_one() -> None:
    assert decide(*[TaskCounts(0, 0, 3)] * 500) is None
    whole, part = decide(*[TaskCounts(3, 3, 3)] * 40), decide(*[TaskCounts(2, 2, 3), TaskCounts(3, 3, 3)] * 40)
    assert whole is not None
    assert part is not None
    assert whole.tasks < part.tasks


def test_a_smaller_alpha_asks_for_more() -> None:
    sure, surer = (decide(*[TaskCounts(1, 1, 1)] * 99, alpha=alpha) for alpha in (0.05, 0.001))
    assert sure is not None
    assert surer is not None
    assert sure.tasks < surer.tasks


@pytest.mark.parametrize(("threshold", "alpha"), [(0.0, 0.05), (1.0, 0.05), (0.5, 0.0), (0.5, 1.0)])
def test_nonsense_is_refused_in_one_line(threshold: float, alpha: float) -> None:
    with pytest.raises(UsageError, match="both lie between 0 and 1"):
        success_rate(threshold, alpha)


def test_from_the_command_line_to_the_record_and_on_with_the_rest(tmp_path: Path) -> None:
    for number in range(12):
        test = f"#!/bin/sh\n: {number}\necho 0 > /logs/verifier/reward.txt\n"
        make_task(tmp_path / "tasks", f"t{number:02}", test=test)
    site = tmp_path / "site" / "rules-1.0.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: rules\nVersion: 1.0\n")
    (site / "entry_points.txt").write_text("[harness.stop_rules]\nsuccess_rate = evals.sequential:success_rate\n")
    env = {"PYTHONPATH": f"{REPO}:{site.parent}"}
    options = ["--agent", "nop", "--allow-unsafe-local", "--jobs-dir", tmp_path, "--name", "j", "-n", "1"]
    done = harness("run", tmp_path / "tasks", "--sequential", "0.7", *options, env=env)
    assert done.code == 0, done.err
    assert "decided, nothing more is started: the success rate is below 70.0%" in done.out
    assert f"harness resume {tmp_path / 'j'} --no-sequential" in done.out
    document = json.loads((tmp_path / "j" / "result.json").read_text())
    heard = document["stopped_early"]["tasks"]
    assert document["stopped_early"]["above"] is False
    assert document["summary"]["counts"]["pending"] == 12 - heard > 0
    again = harness("resume", tmp_path / "j", env=env)
    assert "ended by its stop rule: the success rate is below 70.0%" in again.out
    assert again.code == 0
    whole = harness("resume", tmp_path / "j", "--no-sequential", env=env)
    assert whole.code == 0, whole.err
    assert json.loads((tmp_path / "j" / "result.json").read_text())["summary"]["counts"]["pending"] == 0
