"""Harbor 0.26's own reader, in a Python of its own: HARBOR_PYTHON names it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

needs_harbor = pytest.mark.skipif(
    not os.environ.get("HARBOR_PYTHON"), reason="HARBOR_PYTHON names no Python with harbor 0.26 in it"
)

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


def read_by_harbor(job: Path) -> dict[str, Any]:
    """What Harbor makes of a job: how many trials completed, and of each task whether its reward is valid, the
    rewards, and the number of trajectories."""
    done = subprocess.run(
        [os.environ["HARBOR_PYTHON"], "-W", "ignore", "-c", READ, job], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found
