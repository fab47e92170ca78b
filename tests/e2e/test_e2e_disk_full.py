"""The host's disk full in mid-job: what was written stays whole, nothing new is started, and space makes it go on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import make_task
from command_line import harness, records, sandboxes_left, scraps
from left_out import leave_out

pytestmark = [
    pytest.mark.root,
    pytest.mark.case("A14"),
]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        leave_out(f"nothing can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def grow(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)


@pytest.mark.parametrize("backend", ["local", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.slow])])
@pytest.mark.parametrize("concurrent", [1, 3])
def test_a_full_disk_ends_the_job_with_whole_records_and_more_space_finishes_it(
    concurrent: int, backend: str, small_disk: Path, tmp_path: Path
) -> None:
    for number in range(5):
        make_task(
            tmp_path / "tasks",
            f"t{number}",
            toml='version = "1.0"\n[environment]\nnetwork_mode = "no-network"\n',
            solve="#!/bin/sh\nhead -c 600000 /dev/urandom > /logs/agent/big.log\n",
        )
    where = ("--jobs-dir", small_disk / "jobs", "--name", "job")
    done = harness("run", tmp_path / "tasks", "-b", backend, "-n", str(concurrent), *where)
    job = small_disk / "jobs" / "job"
    assert done.code == 3, done.out + done.err
    assert "Traceback" not in done.out + done.err
    assert "disk" in done.out
    found = records(job)
    full, cut_short = ("infra_error", "disk_full"), ("cancelled", "cancelled")
    ends = [(each["outcome"], each["failure"]["tag"]) for each in found.values() if each["outcome"] != "scored"]
    # An attempt whose record does not fit at all ends the job at once, and cuts short what runs beside it.
    assert set(ends) <= ({full, cut_short} if concurrent > 1 else {full})
    for record in found.values():
        if record["outcome"] != "scored":
            assert record["reward"] is None
        else:
            assert (job / record["trial_name"] / "agent" / "big.log").stat().st_size == 600_000
    scored_early = sum(record["outcome"] == "scored" for record in found.values())
    assert scored_early == 1 or (scored_early == 0 and concurrent > 1), "several may take the space from each other"
    assert len(found) <= 1 + concurrent, "nothing new is started on a full disk"
    for path in job.rglob("*.json"):
        json.loads(path.read_text())
    assert sandboxes_left(job, backend) == []
    assert scraps(job) == []

    grow(small_disk)
    resumed = harness("resume", job)
    assert resumed.code == 0, resumed.out + resumed.err
    scored = {name: record["task_name"] for name, record in records(job).items() if record["outcome"] == "scored"}
    assert sorted(scored.values()) == [f"t{number}" for number in range(5)]
    assert {(job / name / "agent" / "big.log").stat().st_size for name in scored} == {600_000}


def test_a_disk_too_full_for_the_job_itself_is_one_line(small_disk: Path, tmp_path: Path) -> None:
    make_task(tmp_path / "tasks")
    with (small_disk / "filler").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError:
                break
    done = harness("run", tmp_path / "tasks", "--jobs-dir", small_disk / "jobs", "--name", "job")
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert "No space left on device" in done.err
    assert list((small_disk / "jobs").iterdir()) == [], "half a job can be neither run again nor resumed"
