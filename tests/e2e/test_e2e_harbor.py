"""Harbor 0.26's own reader takes what we write. Needs Harbor in a Python of its own: HARBOR_PYTHON names it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

READ = """
import json, pathlib, sys
from harbor.models.job.config import JobConfig
from harbor.models.job.lock import JobLock
from harbor.models.job.result import JobResult
from harbor.models.trajectories import Trajectory
from harbor.models.trial.config import TrialConfig
from harbor.models.trial.result import TrialResult

job = pathlib.Path(sys.argv[1])
found = {"completed": JobResult.model_validate_json((job / "result.json").read_text()).stats.n_completed_trials}
JobConfig.model_validate_json((job / "config.json").read_text())
JobLock.model_validate_json((job / "lock.json").read_text())
for trial in sorted(path.parent for path in job.glob("*/result.json")):
    result = TrialResult.model_validate_json((trial / "result.json").read_text())
    TrialConfig.model_validate_json((trial / "config.json").read_text())
    trajectories = list(trial.glob("**/trajectory.json"))
    for path in trajectories:
        Trajectory.model_validate_json(path.read_text())
    rewards = result.verifier_result.rewards if result.verifier_result else None
    found[result.task_name] = [result.reward_valid, rewards, len(trajectories)]
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["oracle", "nop", "scripted"])
def test_harbors_own_reader_takes_our_jobs_trials_and_trajectories(agent: str, tmp_path: Path) -> None:
    reader = os.environ.get("HARBOR_PYTHON")
    if not reader:
        pytest.skip("HARBOR_PYTHON names no Python with harbor 0.26 in it")
    script = Path(__file__).parents[2] / "examples" / "01-scripted-agent" / "replies.toml"
    options = ["-o", f"script={script}"] if agent == "scripted" else []
    command = [sys.executable, "-m", "harness.cli.main", "run", "--suite", "hello", "--agent", agent, *options]
    subprocess.run([*command, "--jobs-dir", tmp_path, "--name", "j", "--plain"], check=True, capture_output=True)
    done = subprocess.run(
        [reader, "-W", "ignore", "-c", READ, tmp_path / "j"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("completed") == 7
    assert all(valid for valid, _, _ in found.values())
    rewards = [sum(rewards.values()) for _, rewards, _ in found.values()]
    assert {"oracle": min(rewards) >= 1, "nop": max(rewards) == 0, "scripted": 0 < sum(rewards) < 7}[agent]
    assert all(trajectories >= 1 for _, _, trajectories in found.values())
