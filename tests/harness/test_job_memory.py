"""A job's memory does not grow with what its agents said."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from builders import MemoryProvider, make_task
from command_line import REPO, environment

from harness.agents.protocol import AgentResult, AgentRun
from harness.job.config import JobConfig
from harness.job.runner import run_job
from harness.store.layout import JobPaths

SAID = 2_000_000


class Talker:
    """Says two megabytes, in four steps."""

    name = "talker"
    version = "1"
    model_name = None

    async def run(self, run: AgentRun) -> AgentResult:
        for number in range(4):
            run.trajectory.agent(f"{number}" * (SAID // 4), llm_calls=0)
        return AgentResult()

    async def close(self) -> None: ...


def peak_mb(folder: Path, trials: int) -> float:
    """Of a process of its own that runs so many trials."""
    done = subprocess.run(
        [sys.executable, __file__, folder, str(trials)],
        env=environment({"PYTHONPATH": f"{REPO}:{REPO}/tests"}),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.slow
@pytest.mark.case("D12")
@pytest.mark.timeout(300)
def test_ten_times_as_many_long_trajectories_take_no_more_memory(tmp_path: Path) -> None:
    make_task(tmp_path / "tasks")
    few, many = peak_mb(tmp_path, 20), peak_mb(tmp_path, 200)
    written = sum(path.stat().st_size for path in (tmp_path / "jobs" / "200").glob("*/agent/trajectory.json"))
    assert written > 200 * SAID
    assert many < few + 40, f"{few:.0f} MB for 20 trials, {many:.0f} MB for 200, which said {written / 1e6:.0f} MB"


if __name__ == "__main__":
    root, n_trials = Path(sys.argv[1]), int(sys.argv[2])
    sys.path.insert(0, str(Path(__file__).parent))
    job = JobConfig(dataset=str(root / "tasks"), agent=f"{Path(__file__).stem}:Talker", n_attempts=n_trials)
    ran = run_job(
        job, JobPaths(root / "jobs" / str(n_trials)), provider=MemoryProvider(keep_started=False, keeps_files=False)
    )
    outcome = asyncio.run(ran)
    assert outcome.summary.counts["scored"] == n_trials
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
