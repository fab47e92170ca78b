"""The Docker engine stops and comes back in mid-job: on an engine of this test's own, in a network of its own.

The engine that everybody shares is only asked for the base image. In a network namespace of its own the private one
cannot touch that one's bridge, which `--bridge=none` would otherwise remove.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from builders import make_task
from command_line import docker, processes_with, records, sandboxes_left, scraps, start

IMAGE = "debian:bookworm-slim"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.docker,
    pytest.mark.timeout(240),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start an engine"),
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


def test_a_job_outlives_a_restart_of_its_engine(engine: Engine, tmp_path: Path) -> None:
    mark = f"sleep 3.{os.getpid():07d}"
    for number in range(8):
        make_task(
            tmp_path / "tasks",
            f"t{number}",
            toml='version = "1.0"\n[environment]\nnetwork_mode = "no-network"\n',
            solve=f"#!/bin/bash\n{mark}\n",
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
        while len(records(job)) < 2 or len(processes_with(mark)) < 4:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        engine.stop()
        assert processes_with(mark) == [], "the engine took its containers along"
        time.sleep(1)
        engine.start()
        assert process.wait(120) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in log.read_text()
    found = records(job)
    scored = [record for record in found.values() if record["outcome"] == "scored"]
    assert sorted(record["task_name"] for record in scored) == [f"t{number}" for number in range(8)]
    assert {record["reward"] for record in scored} == {1.0}
    failed = [record for record in found.values() if record["outcome"] != "scored"]
    assert len(failed) >= 2
    for record in failed:
        assert record["outcome"] == "infra_error", record["failure"]
        assert record["failure"]["category"].startswith("infra_")
        assert record["failure"]["layer"] == "sandbox", record["failure"]
        assert (record["reward"], record["reward_valid"]) == (None, False)
    assert sandboxes_left(job, "docker", engine.host) == []
    assert docker("ps", "--all", "--quiet", host=engine.host) == ""
    assert processes_with(mark) == []
    assert scraps(job) == []
