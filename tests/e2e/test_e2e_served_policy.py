"""From a served policy to rows to train on: `harness serve`, `run`, and `export`, as a user types them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import harness, records, start

from harness.export.read import read_samples

pytestmark = pytest.mark.slow


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    log = tmp_path / "serve.log"
    process = start("serve", "tiny", "--port", "0", log=log)
    try:
        yield _address(process, log)
        process.terminate()
        assert process.wait(15) == 0
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + 90
    while not (said := log.read_text()).endswith("until Ctrl-C\n"):
        assert process.poll() is None and time.monotonic() < deadline, said
        time.sleep(0.1)
    return said.splitlines()[0]


def test_the_tool_calling_agent_on_a_served_policy_leaves_rows_that_can_be_trained_on(url: str, tmp_path: Path) -> None:
    agent = ("--agent", "tool_calling", "--model", "tiny", "--upstream", url, "-o", "capture=true")
    limits = ("-o", "parameters={max_tokens=30, temperature=1.0, top_p=1.0}", "-o", "max_turns=3")
    task = ("--suite", "hello", "--include", "hello/greeting", "--n-attempts", "4")
    ran = harness("run", *task, *agent, *limits, "--jobs-dir", tmp_path, "--name", "job", cwd=tmp_path)
    assert ran.code == 0, ran.out + ran.err
    assert "4 attempts: 4 scored" in ran.out
    steps = [
        step
        for name in records(tmp_path / "job")
        for step in json.loads((tmp_path / "job" / name / "agent" / "trajectory.json").read_text())["steps"]
        if step["source"] == "agent"
    ]
    assert all(step["metrics"]["extra"]["policy_version"] == "0" for step in steps)
    # Of what a later turn begins with, only the last answer's last token is read again.
    assert sum(step["metrics"]["cached_tokens"] > 0 for step in steps) >= len(steps) - 1
    exported = harness("export", tmp_path / "job", "--to-rl", "-o", tmp_path / "data", "--stats")
    assert exported.code == 0, exported.err
    checked = harness("export", "--check", tmp_path / "data")
    assert (checked.code, "data is sound" in checked.out) == (0, True), checked.out + checked.err
    rows = list(read_samples(tmp_path / "data"))
    assert sum(map(sum, (row.loss_mask for row in rows))) == sum(step["metrics"]["completion_tokens"] for step in steps)
    assert len(rows) == 4  # each attempt is one row: every turn extends the one before
