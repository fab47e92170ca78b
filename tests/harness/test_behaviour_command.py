"""`harness behaviour`: jobs of ours and of Harbor's, each number with its n, and the unknown never taken for 0."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from builders import MemoryProvider, make_task
from runs import write_job
from trajectories import bash, call, trajectory, turn

from harness.atif.model import Trajectory
from harness.atif.reader import load_trajectory
from harness.behaviour.meter import behaviour_of
from harness.behaviour.totals import Observed, measures
from harness.cli.main import main
from harness.failures import Outcome
from harness.job.config import JobConfig
from harness.job.runner import run_job
from harness.records import Behaviour, TrialResult
from harness.store.layout import JobPaths
from harness.store.reader import load_result

HARBOR = Path(__file__).parent / "data" / "harbor-jobs"
FAILED = bash("pytest", "failed", 1)


def job_of(folder: Path, **trajectories: Trajectory) -> Path:
    """A job whose records are of an older harness, with a trajectory for each task."""
    job = write_job(folder, {name: [1.0] for name in trajectories}, categories={"a": ["coding"], "b": ["memory"]})
    for number, found in enumerate(trajectories.values()):
        agent = job / f"t{number:04}__1" / "agent"
        agent.mkdir()
        (agent / "trajectory.json").write_text(found.model_dump_json(exclude_none=True))
    return job


def shown(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> str:
    assert main(["behaviour", *map(str, argv)]) == 0
    return capsys.readouterr().out


def groups_of(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> dict[str, Any]:
    return json.loads(shown(capsys, *argv, "--json"))["groups"]


def two_trials(folder: Path) -> Path:
    looping = trajectory(*[turn(FAILED, prompt=10 * n) for n in (1, 2, 3)])
    looking = trajectory(turn(bash("ls"), call("read", {"path": "a"})))
    return job_of(folder, a=looping, b=looking)


def test_a_record_without_behaviour_is_counted_from_its_trajectory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = groups_of(capsys, two_trials(tmp_path / "job"))["all"]
    assert everything["tool_calls"] == {"value": 2.5, "n": 2, "of": "trials", "unit": "number"}
    assert everything["error_rate"] == {"value": 0.6, "n": 5, "of": "calls", "unit": "share"}
    assert everything["loop_rate"]["value"] == 0.5
    assert everything["wasted_rate"]["value"] == 0.6
    assert everything["parallel_rate"] == {"value": 0.25, "n": 4, "of": "turns", "unit": "share"}
    assert (everything["context_first"]["value"], everything["context_first"]["n"]) == (10, 1)


@pytest.mark.parametrize(
    ("by", "groups"), [("category", {"coding", "memory"}), ("task", {"a", "b"}), ("agent", {"agent"})]
)
def test_trials_are_grouped(tmp_path: Path, capsys: pytest.CaptureFixture[str], by: str, groups: set[str]) -> None:
    found = groups_of(capsys, two_trials(tmp_path / "job"), "--by", by)
    assert found.keys() == {"all", *groups}
    assert sum(group["tool_calls"]["n"] for name, group in found.items() if name != "all") == 2


def test_the_table_shows_every_number_with_its_n(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, two_trials(tmp_path / "job"), "--by", "category")
    assert "2 of 2 trials" in text
    (line,) = [line for line in text.splitlines() if line.startswith("calls that failed")]
    assert line.split()[-3:] == ["60.0%", "5", "calls"]
    assert any(line.split()[:3] == ["coding", "3.00", "n=1"] for line in text.splitlines())


def test_a_job_of_harbors_is_read_and_says_that_it_tells_no_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no exit codes were recorded" in shown(capsys, HARBOR / "term1")
    everything = groups_of(capsys, HARBOR / "term1")["all"]
    assert (everything["turns"]["value"], everything["error_rate"]["value"]) == (3, None)
    assert everything["environment_sec"]["value"] > 1


def test_trials_without_a_trajectory_are_named_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, HARBOR / "fail1")
    assert "0 of 18 trials" in text
    assert "0.0%" not in text


def test_a_trajectory_that_cannot_be_read_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = two_trials(tmp_path / "job")
    (job / "t0000__1" / "agent" / "trajectory.json").write_text('{"schema_version": "\x1b[31m"}')
    text = shown(capsys, job)
    assert "1 of 2 trials" in text
    assert "note: " in text
    assert "\x1b" not in text


def test_what_is_no_job_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, words in ((tmp_path, "holds no trials"), (tmp_path / "no", "is not a job's folder")):
        assert main(["behaviour", str(folder)]) == 2
        assert words in capsys.readouterr().err


def test_only_the_last_execution_of_an_attempt_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = two_trials(tmp_path / "job")
    shutil.copytree(job / "t0000__1", job / "t0000__1r1")
    record = load_result(job / "t0000__1r1" / "result.json")
    again = record.model_copy(
        update={"retry": 1, "outcome": Outcome.SCORED, "behaviour": Behaviour(tool_calls=9, turns=9)}
    )
    (job / "t0000__1r1" / "result.json").write_text(again.model_dump_json())
    assert groups_of(capsys, job)["all"]["tool_calls"]["value"] == 5.5


def test_a_trial_records_its_behaviour_and_nothing_is_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path / "job", {"a": [1.0]})
    path = job / "t0000__1" / "result.json"
    record = TrialResult.model_validate_json(path.read_text())
    record.behaviour = Behaviour(steps=3, tool_calls=2, turns=2, failed_calls=1, judged_calls=2, timeouts=0)
    path.write_text(record.model_dump_json())
    everything = groups_of(capsys, job)["all"]
    assert (everything["error_rate"]["value"], everything["timeout_retry_rate"]["value"]) == (0.5, None)


def test_what_no_trial_tells_has_no_value_and_an_n_of_0() -> None:
    found = measures([])
    assert {(each.value, each.n) for each in found} == {(None, 0)}
    assert len({each.key for each in found}) == len(found) == len({each.label for each in found})


def test_other_time_is_known_only_where_all_parts_are() -> None:
    told = Behaviour(model_sec=2.0, tool_sec=3.0)
    assert Observed(behaviour=told, environment_sec=1.0, total_sec=10.0).other_sec == 4.0
    assert Observed(behaviour=told, total_sec=10.0).other_sec is None
    assert Observed(behaviour=told, environment_sec=9.0, total_sec=10.0).other_sec == 0.0


async def test_a_trial_records_what_its_agent_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_task(tmp_path / "tasks", "t")
    job = JobConfig(dataset=str(tmp_path / "tasks"), agent="nop")
    await run_job(job, JobPaths(tmp_path / "j"), provider=MemoryProvider())
    recorded = load_result(tmp_path / "j" / "t__1" / "result.json").behaviour
    assert recorded == behaviour_of(load_trajectory(tmp_path / "j" / "t__1" / "agent" / "trajectory.json"))
    assert (recorded.turns, recorded.failed_calls) == (0, 0)
    (tmp_path / "j" / "t__1" / "agent" / "trajectory.json").unlink()
    assert groups_of(capsys, tmp_path / "j")["all"]["turns"] == {"value": 0, "n": 1, "of": "trials", "unit": "number"}
