"""The Docker engine stops and comes back in mid-job: on an engine of this test's own, in a network of its own.

The engine that everybody shares is only asked for the base image. In a network namespace of its own the private one
cannot touch that one's bridge, which `--bridge=none` would otherwise remove.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from builders import make_task
from command_line import docker, harness, processes_with, records, scraps, start

MARK = f"sleep 3.{os.getpid():07d}"
IMAGE = "debian:bookworm-slim"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.docker,
    pytest.mark.timeout(240),
    pytest.mark.root,
    pytest.mark.skipif(not shutil.which("dockerd", path="/usr/sbin:/usr/bin:/sbin"), reason="dockerd is not installed"),
]


class Engine:
    """A dockerd of our own below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = f"unix://{folder}/socket"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = ["unshare", "--net", "dockerd", "--bridge=none", "--iptables=false", "--host", self.host]
        argv += [f"--{name}={self.folder / name}" for name in ("data-root", "exec-root", "pidfile")]
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, env={**os.environ, "PATH": path})
        deadline = time.monotonic() + 60
        while True:
            with suppress(AssertionError):
                docker("version", host=self.host)
                return
            said = (self.folder / "log").read_text()[-2000:]
            assert self._process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop it as a service manager does; what does not go is killed."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(40)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its containerd dies with it
            self._process.wait()
        self._process = None


@pytest.fixture
def engine() -> Iterator[Engine]:
    folder = Path(tempfile.mkdtemp(prefix="harness-engine-"))
    engine = Engine(folder)
    try:
        engine.start()
        with subprocess.Popen(["docker", "save", IMAGE], stdout=subprocess.PIPE) as saved:
            subprocess.run(["docker", "--host", engine.host, "load", "--quiet"], stdin=saved.stdout, check=True)
        yield engine
    finally:
        engine.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def started(engine: Engine, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path, Path]]:
    """A job of 8 attempts on that engine, of which some are done and four act; its process, folder and output."""
    for number in range(8):
        make_task(
            tmp_path / "tasks",
            f"t{number}",
            toml='version = "1.0"\n[environment]\nnetwork_mode = "no-network"\n',
            solve=f"#!/bin/bash\n{MARK}\n",
        )
    job, log = tmp_path / "jobs" / "job", tmp_path / "log"
    process = start(
        *("run", tmp_path / "tasks", "-b", "docker", "-n", "4", "--max-retries", "8"),
        *("--jobs-dir", tmp_path / "jobs", "--name", "job"),
        log=log,
        env={"DOCKER_HOST": engine.host},
    )
    try:
        deadline = time.monotonic() + 60
        while len(records(job)) < 2 or len(processes_with(MARK)) < 4:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield process, job, log
    finally:
        process.kill()
        process.wait()


def everything_is_scored_and_nothing_left(engine: Engine, job: Path) -> None:
    found = records(job)
    scored = [record for record in found.values() if record["outcome"] == "scored"]
    assert sorted(record["task_name"] for record in scored) == [f"t{number}" for number in range(8)]
    assert {record["reward"] for record in scored} == {1.0}
    for record in found.values():
        if record["outcome"] != "scored":
            assert record["outcome"] == "infra_error", record["failure"]
            assert record["failure"]["category"].startswith("infra_"), record["failure"]
            assert record["failure"]["layer"] == "sandbox", record["failure"]
            assert (record["reward"], record["reward_valid"]) == (None, False)
    assert len(found) >= len(scored) + 2, "what the engine interrupted has its own record"
    assert docker("ps", "--all", "--quiet", host=engine.host) == ""
    assert processes_with(MARK) == []
    assert scraps(job) == []


def test_an_engine_without_a_bridge_runs_a_task_that_may_use_the_network(engine: Engine, tmp_path: Path) -> None:
    make_task(tmp_path / "tasks", "t", toml='version = "1.0"\n[environment]\nallow_internet = true\n')
    done = harness(
        *("run", tmp_path / "tasks", "-b", "docker", "--agent", "nop", "--max-retries", "0"),
        *("--jobs-dir", tmp_path, "--name", "job"),
        env={"DOCKER_HOST": engine.host},
    )
    assert done.code == 0, done.out + done.err
    assert [record["outcome"] for record in records(tmp_path / "job").values()] == ["scored"]


def test_a_job_outlives_a_restart_of_its_engine(
    engine: Engine, started: tuple[subprocess.Popen[bytes], Path, Path]
) -> None:
    process, job, log = started
    engine.stop()
    assert processes_with(MARK) == [], "the engine took its containers along"
    time.sleep(1)
    engine.start()
    assert process.wait(120) == 0, log.read_text()
    assert "Traceback" not in log.read_text()
    everything_is_scored_and_nothing_left(engine, job)


def test_without_its_engine_a_job_stops_when_told_and_is_resumed_once_there_is_one(
    engine: Engine, started: tuple[subprocess.Popen[bytes], Path, Path]
) -> None:
    process, job, log = started
    engine.stop()
    deadline = time.monotonic() + 60
    while "is repeated in" not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, log.read_text()
    assert "Traceback" not in log.read_text()
    at = {"DOCKER_HOST": engine.host}
    refused = harness("resume", job, env=at)
    assert refused.code == 2
    assert refused.err.startswith("error: the docker backend does not work here")
    engine.start()
    resumed = harness("resume", job, env=at)
    assert resumed.code == 0, resumed.out + resumed.err
    everything_is_scored_and_nothing_left(engine, job)
