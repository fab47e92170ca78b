"""A job that is interrupted, terminated or killed: nothing is lost, nothing is done twice, nothing keeps running."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from builders import make_task
from command_line import command, environment, harness, processes_with, records, sandboxes_left, scraps, start
from thorough import times

LOCAL = "local"
DOCKER = pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.slow])
NO_NETWORK = 'version = "1.0"\n[environment]\nnetwork_mode = "no-network"\n'


def make_tasks(folder: Path, count: int, work: str, toml: str = NO_NETWORK) -> Path:
    for number in range(count):
        make_task(folder / "tasks", f"t{number}", toml=toml, solve=f"#!/bin/bash\n{work}\n")
    return folder / "tasks"


def wait_until(true: Callable[[], bool], what: str, timeout: float = 40) -> None:
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


def nothing_is_left(job: Path, backend: str, mark: str) -> None:
    assert sandboxes_left(job, backend) == []
    assert processes_with(mark) == []
    assert scraps(job) == []


@contextmanager
def running(*argv: str | Path, log: Path, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    process = start(*argv, log=log, env=env)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def outcomes(job: Path) -> Counter[str]:
    return Counter(record["outcome"] for record in records(job).values())


@pytest.mark.case("D3")
@pytest.mark.parametrize("backend", [LOCAL, DOCKER])
def test_the_first_ctrl_c_finishes_what_runs_and_resume_does_the_rest(backend: str, tmp_path: Path) -> None:
    mark = f"sleep 2.{os.getpid():07d}"
    tasks, job, log = make_tasks(tmp_path, 4, mark), tmp_path / "jobs" / "job", tmp_path / "log"
    argv = ("run", tasks, "-b", backend, "-n", "2", "--jobs-dir", tmp_path / "jobs", "--name", "job")
    with running(*argv, log=log) as process:
        wait_until(lambda: len(processes_with(mark)) >= 2, "two agents act")
        process.send_signal(signal.SIGINT)
        assert process.wait(40) == 130
    assert "interrupted: finishing what runs" in log.read_text()
    assert outcomes(job) == {"scored": 2}
    nothing_is_left(job, backend, mark)
    resumed = harness("resume", job)
    assert resumed.code == 0, resumed.err
    assert sorted(records(job)) == [f"t{number}__1" for number in range(4)]
    assert outcomes(job) == {"scored": 4}


@pytest.mark.case("D3")
@pytest.mark.parametrize("how", ["two Ctrl-C", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("backend", [LOCAL, DOCKER])
def test_what_is_stopped_is_cancelled_and_owed_and_leaves_nothing(backend: str, how: str, tmp_path: Path) -> None:
    nap = f"300.{os.getpid():07d}"
    work = "setsid nohup sleep $NAP >/dev/null 2>&1 & sleep $NAP"
    toml = NO_NETWORK + '[environment.env]\nNAP = "${E2E_NAP}"\n'
    tasks, job, log = make_tasks(tmp_path, 3, work, toml), tmp_path / "jobs" / "job", tmp_path / "log"
    argv = ("run", tasks, "-b", backend, "-n", "2", "--jobs-dir", tmp_path / "jobs", "--name", "job")
    with running(*argv, log=log, env={"E2E_NAP": nap}) as process:
        wait_until(lambda: len(processes_with(f"sleep {nap}")) >= 4, "two agents act")
        if how.startswith("SIG"):
            process.send_signal(signal.Signals[how])
        else:
            process.send_signal(signal.SIGINT)
            wait_until(lambda: "finishing what runs" in log.read_text(), "the first is answered")
            process.send_signal(signal.SIGINT)
        assert process.wait(40) == 130
    assert "Traceback" not in log.read_text()
    assert outcomes(job) == {"cancelled": 2}
    assert "3 attempts: 2 cancelled, 1 pending" in log.read_text()
    assert all(record["reward"] is None and not record["reward_valid"] for record in records(job).values())
    nothing_is_left(job, backend, f"sleep {nap}")
    resumed = harness("resume", job, env={"E2E_NAP": "0.01"})
    assert resumed.code == 0, resumed.err
    assert outcomes(job) == {"cancelled": 2, "scored": 3}
    assert sorted(records(job)) == ["t0__1", "t0__1r1", "t1__1", "t1__1r1", "t2__1"]


def test_a_job_that_runs_is_not_resumed_by_a_second_process(tmp_path: Path) -> None:
    mark = f"sleep 30.{os.getpid():07d}"
    tasks, job, log = make_tasks(tmp_path, 1, mark), tmp_path / "jobs" / "job", tmp_path / "log"
    with running("run", tasks, "--jobs-dir", tmp_path / "jobs", "--name", "job", log=log) as process:
        wait_until(lambda: processes_with(mark) != [], "the agent acts")
        refused = harness("resume", job)
        assert (refused.code, refused.err) == (2, f"error: {job} is being run by another process\n")
        assert processes_with(mark) != [], "and its sandbox is not taken for an orphan"
        process.terminate()
        assert process.wait(40) == 130


def test_what_a_killed_write_left_behind_is_swept_by_the_next_start(tmp_path: Path) -> None:
    tasks, job = make_tasks(tmp_path, 2, "true"), tmp_path / "jobs" / "job"
    assert harness("run", tasks, "--jobs-dir", tmp_path / "jobs", "--name", "job").code == 0
    (job / "t0__1" / "result.json").rename(job / "t0__1" / ".result.json.123.tmp")
    (job / ".result.json.123.tmp").write_text("{")
    (job / ".scratch" / "0" / "half a download").mkdir(parents=True)
    assert harness("resume", job).code == 0
    assert scraps(job) == []
    assert sorted(records(job)) == ["t0__1r1", "t1__1"]


def planned(n_tasks: int, n_attempts: int) -> Counter[tuple[str, int]]:
    return Counter((f"t{number}", attempt) for number in range(n_tasks) for attempt in range(1, n_attempts + 1))


def kill_until_done(
    folder: Path, backend: str, *, kills: int, seed: int, alive: tuple[float, float], work: str
) -> dict[str, Any]:
    """Kill a job's process `kills` times at random moments, resume it each time, and let the last one finish."""
    tasks, job, log = make_tasks(folder, 6, work), folder / "jobs" / "job", folder / "log"
    first = ("run", tasks, "-b", backend, "-n", "4", "-k", "2", "--jobs-dir", folder / "jobs", "--name", "job")
    moments = random.Random(seed)
    killed, final_seen, redone = 0, dict[str, str](), 0
    while killed < kills:
        argv = first if not (job / "lock.json").exists() else ("resume", job)
        with running(*argv, log=log) as process:
            if killed % 2:  # half of the moments are counted from when the job is known, half from the very start
                wait_until(lambda: (job / "lock.json").exists() or process.poll() is not None, "the job is there")
            try:
                code = process.wait(moments.uniform(*alive))
            except subprocess.TimeoutExpired:
                process.kill()
                killed += 1
            else:
                assert code in (0, 2), log.read_text()
                if code == 0:
                    break
        # Whatever moment it was: records are whole, and what was final stays as it was, to the byte.
        for name, record in records(job).items():
            text = (job / name / "result.json").read_text()
            if name in final_seen and final_seen[name] != text:
                redone += 1
            if record["outcome"] == "scored":
                final_seen[name] = text
    done = harness("resume", job, "--json")
    assert done.code == 0, done.out + done.err
    return {"job": job, "killed": killed, "redone": redone, "log": log.read_text(), "end": done.lines[-1]}


def check_killed(found: dict[str, Any], backend: str, mark: str) -> None:
    job = found["job"]
    assert "Traceback" not in found["log"]
    ended = [record for record in records(job).values() if record["outcome"] == "scored"]
    assert Counter((record["task_name"], record["attempt"]) for record in ended) == planned(6, 2)
    assert {record["reward"] for record in ended} == {1.0}
    assert found["redone"] == 0
    assert found["end"]["counts"]["scored"] == 12
    for path in job.rglob("*.json"):
        json.loads(path.read_text())
    nothing_is_left(job, backend, mark)


@pytest.mark.case("D2")
@pytest.mark.case("D4")
@pytest.mark.case("A11")
def test_killed_five_times_a_local_job_ends_with_every_attempt_once(tmp_path: Path) -> None:
    mark = f"sleep 0.4{os.getpid():07d}"
    found = kill_until_done(tmp_path, LOCAL, kills=5, seed=5, alive=(0.3, 1.4), work=mark)
    assert found["killed"] >= 3
    check_killed(found, LOCAL, mark)


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.timeout(400)
@pytest.mark.case("D2")
@pytest.mark.case("D4")
@pytest.mark.case("A11")
def test_killed_many_times_a_docker_job_ends_with_every_attempt_once(tmp_path: Path) -> None:
    mark = f"sleep 4.{os.getpid():07d}"
    kills = times(8, promised=20)
    found = kill_until_done(tmp_path, "docker", kills=kills, seed=20, alive=(0.4, 6.5), work=mark)
    assert found["killed"] == kills
    check_killed(found, "docker", mark)


@pytest.mark.parametrize("options", [["--plain"], ["--json"]])
def test_a_reader_that_leaves_costs_the_output_and_nothing_else(options: list[str], tmp_path: Path) -> None:
    tasks, job = make_tasks(tmp_path, 3, "true"), tmp_path / "jobs" / "job"
    argv = command("run", tasks, "--jobs-dir", tmp_path / "jobs", "--name", "job", *options)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
    assert outcomes(job) == {"scored": 3}
    nothing_is_left(job, LOCAL, "no such command")


@pytest.mark.parametrize("where", ["/dev/full", None], ids=["a full disk", "closed"])
def test_output_that_goes_nowhere_does_not_stop_a_job(where: str | None, tmp_path: Path) -> None:
    tasks, job = make_tasks(tmp_path, 2, "true"), tmp_path / "jobs" / "job"
    line = shlex.join(command("run", tasks, "--jobs-dir", tmp_path / "jobs", "--name", "job"))
    redirected = f"{line} > {where}" if where else f"{line} >&-"
    done = subprocess.run(["sh", "-c", redirected], env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert outcomes(job) == {"scored": 2}
