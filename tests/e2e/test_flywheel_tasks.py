"""The flywheel's family of tasks: reproducible, solvable, and not for nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from backends import create_provider
from harness.job.config import JobConfig
from harness.job.runner import run_job
from harness.store.layout import JobPaths
from harness.task.digest import folder_digest

FLYWHEEL = Path(__file__).parents[2] / "examples" / "flywheel"


def make(folder: Path, *, tasks: int, seed: int) -> list[str]:
    """The tasks' digests."""
    command = [sys.executable, str(FLYWHEEL / "family.py"), str(folder), "--tasks", str(tasks), "--seed", str(seed)]
    subprocess.run(command, check=True, timeout=20)
    return [folder_digest(each) for each in sorted(folder.iterdir())]


def test_a_seed_names_its_tasks_and_two_seeds_share_none(tmp_path: Path) -> None:
    first, again = make(tmp_path / "a", tasks=6, seed=1), make(tmp_path / "b", tasks=6, seed=1)
    other = make(tmp_path / "c", tasks=6, seed=2)
    assert first == again and len(set(first)) == 6
    assert not set(first) & set(other)


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("nop", 0.0)])
async def test_the_solution_earns_the_reward_and_doing_nothing_does_not(
    agent: str, reward: float, tmp_path: Path
) -> None:
    if not (await create_provider("local").check()).works:
        pytest.skip("namespaces are forbidden here")
    make(tmp_path / "tasks", tasks=2, seed=1)
    outcome = await run_job(JobConfig(dataset=str(tmp_path / "tasks"), agent=agent), JobPaths(tmp_path / "jobs/j"))
    assert (outcome.summary.counts["scored"], outcome.summary.rate().value) == (2, reward)
