"""Harbor 0.26's own reader takes what we write. Needs Harbor in a Python of its own: HARBOR_PYTHON names it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from harbor_reader import needs_harbor, read_by_harbor


@needs_harbor
@pytest.mark.slow
@pytest.mark.parametrize("agent", ["oracle", "nop", "scripted"])
def test_harbors_own_reader_takes_our_jobs_trials_and_trajectories(agent: str, tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "examples" / "01-scripted-agent" / "replies.toml"
    options = ["-o", f"script={script}"] if agent == "scripted" else []
    command = [sys.executable, "-m", "harness.cli.main", "run", "--suite", "hello", "--agent", agent, *options]
    subprocess.run([*command, "--jobs-dir", tmp_path, "--name", "j", "--plain"], check=True, capture_output=True)
    found = read_by_harbor(tmp_path / "j")
    assert found.pop("completed") == 7
    assert all(valid for valid, _, _ in found.values())
    rewards = [sum(rewards.values()) for _, rewards, _ in found.values()]
    assert {"oracle": min(rewards) >= 1, "nop": max(rewards) == 0, "scripted": 0 < sum(rewards) < 7}[agent]
    assert all(trajectories >= 1 for _, _, trajectories in found.values())
