"""The bundled suite as a user runs it: agents, backends, what is printed, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import make_task
from command_line import Done, by_task, harness, records, sandboxes_left, scraps

DOCKER = pytest.param("docker", marks=pytest.mark.docker)
SLOW_DOCKER = pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.slow])
TASKS = {f"hello/{name}" for name in ("backup-repair", "fix-slugify", "greeting", "ledger", "needle")} | {
    "hello/order-totals",
    "hello/roman",
}

SCRIPT = """
[[tasks."hello/greeting"]]
text = "I look first."
calls = [{ name = "ls", arguments = { path = "/app" } }, { name = "bash", arguments = { command = "pwd" } }]
[[tasks."hello/greeting"]]
calls = [{ name = "bash", arguments = { command = "printf 'Hello from the sandbox!\\n' > /app/greeting.txt" } }]

[[tasks."hello/order-totals"]]
calls = [{ name = "write", arguments = { path = "/app/totals.csv", content = "alder,3624\\nbirch,5130\\n" } }]
"""


def run(folder: Path, *argv: str | Path, name: str = "job", code: int = 0) -> tuple[Path, Done]:
    """A run whose job is `folder`/`name`."""
    done = harness("run", *argv, "--jobs-dir", folder, "--name", name, cwd=folder)
    assert done.code == code, done.out + done.err
    return folder / name, done


def rewards(job: Path) -> dict[str, Any]:
    return {task: record["reward"] for task, record in by_task(job).items()}


@pytest.mark.parametrize("backend", ["local", DOCKER])
def test_the_oracle_solves_every_task_and_nothing_is_left(backend: str, jobs_dir: Path) -> None:
    job, done = run(jobs_dir, "--suite", "hello", "--agent", "oracle", "--backend", backend)
    assert rewards(job) == dict.fromkeys(TASKS, 1.0)
    assert "7 attempts: 7 scored" in done.out
    assert f"next:   harness show {job}" in done.out
    assert done.err == ""
    assert sandboxes_left(job, backend) == []
    assert scraps(job) == []


@pytest.mark.parametrize("backend", ["local", SLOW_DOCKER])
def test_doing_nothing_solves_none_and_json_lines_tell_each_attempt(backend: str, jobs_dir: Path) -> None:
    options = ("--agent", "nop", "--backend", backend, "--json", "--fail-under", "0.5")
    job, done = run(jobs_dir, "--suite", "hello", *options, code=1)
    assert rewards(job) == dict.fromkeys(TASKS, 0.0)
    first, *trials, last = done.lines
    assert (first["event"], first["total"], last["event"]) == ("start", 7, "end")
    assert {line["task"]: line["reward"] for line in trials} == dict.fromkeys(TASKS, 0.0)
    assert last["overall"]["rate"] == 0.0
    assert last["overall"]["n"] == last["counts"]["scored"] == 7
    assert last["failures"] == [{"category": "capability", "tag": "wrong_answer", "count": 7}]


@pytest.mark.parametrize("backend", ["local", SLOW_DOCKER])
def test_a_scripted_model_earns_what_it_did_and_its_replay_earns_the_same(backend: str, tmp_path: Path) -> None:
    (tmp_path / "script.toml").write_text(SCRIPT)
    chosen = ("--suite", "hello", "--include", "hello/greeting", "--include", "hello/order-totals")
    chosen = (*chosen, "--backend", backend)
    job, _ = run(tmp_path, *chosen, "--agent", "scripted", "-o", "script=script.toml")
    assert rewards(job)["hello/greeting"] == 1.0
    assert 0 < rewards(job)["hello/order-totals"] < 1
    again, _ = run(tmp_path, *chosen, "--agent", "replay", "-o", f"source={job}", name="again")
    assert rewards(again) == rewards(job)
    trajectory = json.loads((again / "hello--greeting__1" / "agent" / "trajectory.json").read_text())
    calls = [call["function_name"] for step in trajectory["steps"] for call in step.get("tool_calls") or ()]
    assert calls == ["ls", "bash", "bash", "finish"]


def test_an_agent_of_the_users_own_is_a_table_in_harness_toml(tmp_path: Path) -> None:
    (tmp_path / "script.toml").write_text(SCRIPT)
    (tmp_path / "harness.toml").write_text('[agents.mine]\ntype = "scripted"\nscript = "script.toml"\n')
    job, _ = run(tmp_path, "--suite", "hello", "--include", "hello/greeting", "--agent", "mine")
    assert rewards(job) == {"hello/greeting": 1.0}
    assert by_task(job)["hello/greeting"]["agent_info"]["name"] == "mine"


def test_a_replay_of_the_oracle_earns_what_the_oracle_earned(jobs_dir: Path) -> None:
    chosen = ("--suite", "hello", "--include", "hello/greeting", "--include", "hello/ledger")
    job, _ = run(jobs_dir, *chosen, "--agent", "oracle")
    again, _ = run(jobs_dir, *chosen, "--agent", "replay", "-o", f"source={job}", name="again")
    assert rewards(job) == rewards(again) == {"hello/greeting": 1.0, "hello/ledger": 1.0}


def test_show_reads_a_job_and_a_trial(jobs_dir: Path) -> None:
    job, _ = run(jobs_dir, "--suite", "hello", "--include", "hello/greeting", "--agent", "oracle")
    shown = harness("show", job)
    assert (shown.code, shown.err) == (0, "")
    assert "hello--greeting__1" in shown.out
    assert "1 attempts: 1 scored" in shown.out
    assert json.loads(harness("show", job, "--json").out)["overall"]["rate"] == 1.0
    trial = harness("show", job / "hello--greeting__1")
    assert (trial.code, trial.err) == (0, "")
    assert "outcome: scored, reward 1" in trial.out
    assert "bash" in trial.out
    assert json.loads(harness("show", job / "hello--greeting__1", "--json").out)["reward"] == 1.0


def test_attempts_are_added_by_resume_and_a_finished_job_owes_nothing(jobs_dir: Path) -> None:
    job, _ = run(jobs_dir, "--suite", "hello", "--include", "hello/greeting", "--agent", "oracle")
    more = harness("resume", job, "--n-attempts", "3")
    assert more.code == 0, more.err
    assert sorted(records(job)) == [f"hello--greeting__{attempt}" for attempt in (1, 2, 3)]
    again = harness("resume", job, "--json")
    assert again.code == 0
    assert [line["event"] for line in again.lines] == ["start", "end"]
    assert again.lines[0]["owed"] == 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["run"], "name what to run"),
        (["run", "no/such/folder"], "no/such/folder"),
        (["run", "--suite", "helo"], "hello"),
        (["run", "--suite", "hello", "--agent", "orcale"], "did you mean 'oracle'?"),
        (["run", "--suite", "hello", "--backend", "dokcer"], "docker"),
        (["run", "--suite", "hello", "--include", "nothing*"], "nothing*"),
        (["run", "--suite", "hello", "--agent", "scripted"], "script"),
        (["run", "--suite", "hello", "--agent", "oracle", "-o", "x"], "key=value"),
        (["run", "--suite", "hello", "--agent", "oracle", "-o", "x=1"], "unknown key 'x'"),
        (["run", "--suite", "hello", "--name", "a/b"], "--name"),
        (["run", "--suite", "hello", "--n-concurrent", "0"], "--n-concurrent"),
        (["run", "--suite", "hello", "--jobs-dir", "/proc/no"], "/proc/no"),
        (["resume", "nowhere"], "not a job"),
        (["show", "nowhere"], "nowhere"),
    ],
)
def test_a_request_that_cannot_be_is_one_line_and_exit_code_2(argv: list[str], said: str, tmp_path: Path) -> None:
    done = harness(*argv, cwd=tmp_path)
    assert done.code == 2, done.out + done.err
    assert done.err.count("\n") == 1
    assert done.err.startswith("error: ")
    assert said in done.err
    assert list(tmp_path.iterdir()) == [], "nothing may be created for it"


def test_without_an_engine_docker_is_a_request_that_cannot_be(tmp_path: Path) -> None:
    nobody = {"DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"}
    done = harness("run", "--suite", "hello", "--backend", "docker", cwd=tmp_path, env=nobody)
    assert done.code == 2
    assert done.err.startswith("error: the docker backend does not work here")
    assert done.err.count("\n") == 1


def test_only_infrastructure_errors_are_exit_code_3_and_never_a_zero(tmp_path: Path) -> None:
    task = make_task(
        tmp_path / "tasks",
        test='#!/bin/sh\necho \'{"status": "infra"}\' > /logs/verifier/status.json\n',
    )
    job, done = run(tmp_path, task, "--agent", "nop", "--json", "--max-retries", "0", "--fail-under", "0.5", code=3)
    assert rewards(job) == {"greet": None}
    assert done.lines[-1]["overall"]["rate"] is None
    assert done.lines[-1]["overall"]["n"] == 0


def test_two_runs_never_share_a_folder(jobs_dir: Path) -> None:
    job, _ = run(jobs_dir, "--suite", "hello", "--include", "hello/greeting", "--agent", "nop")
    before = records(job)
    _, done = run(jobs_dir, "--suite", "hello", "--include", "hello/greeting", "--agent", "nop", code=2)
    assert "exists" in done.err
    assert records(job) == before
