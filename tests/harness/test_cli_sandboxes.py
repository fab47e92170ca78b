"""`harness sandboxes`: what is listed, what is reaped, and what is left alone."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import REPO, environment

from backends import SandboxSpec, create_provider
from backends.lifecycle import JOB, OWNER, TRIAL, owner_label
from backends.spec import SandboxInfo
from harness.cli.main import main

START_AND_DIE = """
import asyncio, os, sys
from pathlib import Path
from backends import SandboxSpec, create_provider
from backends.lifecycle import JOB, OWNER, TRIAL, owner_label

async def start():
    labels = {OWNER: owner_label(), JOB: sys.argv[2], TRIAL: "t__1"}
    sandbox = await create_provider("local").start(SandboxSpec(build_dir=Path(sys.argv[1]), labels=labels))
    print(sandbox.id, flush=True)
    os._exit(9)

asyncio.run(start())
"""


def orphan(folder: Path, job: str) -> str:
    """A local sandbox whose owner died."""
    (folder / "Dockerfile").write_text("FROM scratch\n")
    command = [sys.executable, "-c", START_AND_DIE, str(folder), job]
    done = subprocess.run(command, cwd=REPO, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    return done.stdout.strip()


def listed(capsys: pytest.CaptureFixture[str], *argv: str) -> list[dict[str, Any]]:
    assert main(["sandboxes", *argv, "--backend", "local", "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.case("A11")
def test_only_what_a_dead_process_left_is_reaped_and_only_when_old_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = f"job-{tmp_path.name}"
    left = orphan(tmp_path, job)
    found = listed(capsys, "list", "--job", job)
    assert [(row["id"], row["job"], row["trial"], row["owner_is_dead"]) for row in found] == [(left, job, "t__1", True)]
    assert listed(capsys, "reap", "--job", job) == [], "younger than the margin"
    assert [row["id"] for row in listed(capsys, "reap", "--job", job, "--min-age", "0")] == [left]
    assert listed(capsys, "list", "--job", job) == []


def test_a_sandbox_in_use_is_listed_and_never_reaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    job = f"job-{tmp_path.name}"
    labels = {OWNER: owner_label(), JOB: job, TRIAL: "t__1"}

    async def use() -> list[SandboxInfo]:
        from harness.cli.sandboxes import _reap

        sandbox = await create_provider("local").start(SandboxSpec(build_dir=tmp_path, labels=labels))
        try:
            return await _reap(["local"], {JOB: job}, 0.0)
        finally:
            await sandbox.stop()

    assert asyncio.run(use()) == []


def test_no_sandboxes_is_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandboxes", "list", "--backend", "local", "--job", "no-such-job"]) == 0
    assert main(["sandboxes", "reap", "--backend", "local", "--job", "no-such-job"]) == 0
    assert capsys.readouterr().out == "no sandboxes\nnothing to reap\n"


def test_a_backend_that_was_named_and_does_not_work_is_one_line_that_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    assert main(["sandboxes", "list", "--backend", "e2b"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: the e2b backend does not work here (E2B_API_KEY is not set): set E2B_API_KEY to")
    assert said.count("\n") == 1


def test_an_unknown_backend_is_told_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandboxes", "list", "--backend", "e2"]) == 2
    assert "did you mean 'e2b'" in capsys.readouterr().err


def test_a_bound_on_sandboxes_is_refused_where_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["run", "--suite", "hello", "--max-sandboxes", "3", "--jobs-dir", str(tmp_path / "jobs")]
    assert main(argv) == 2
    assert "--n-concurrent bounds its trials" in capsys.readouterr().err
    assert not (tmp_path / "jobs").exists()
