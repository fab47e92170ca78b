"""The agent that knows the answer, and the one that does nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_runs import make_step, play

from harness.agents.nop import NopAgent
from harness.agents.oracle import OracleAgent
from harness.errors import TaskInvalid, TaskUnsupported
from harness.failures import AgentStop



def solution(folder: Path, script: str) -> Path:
    """A solution on the host."""
    root = folder / "solution"
    root.mkdir()
    (root / "solve.sh").write_text(script)
    return root


async def test_nop_changes_nothing_and_still_leaves_a_trajectory(tmp_path: Path) -> None:
    ran = await play(NopAgent(), tmp_path)
    assert ran.result.stop is AgentStop.FINISHED
    assert ran.sandbox.calls == []
    assert [step.source for step in ran.trajectory.steps] == ["user", "agent"]


async def test_the_oracle_needs_a_solution(tmp_path: Path) -> None:
    with pytest.raises(TaskUnsupported, match="task 't' ships no solution"):
        await play(OracleAgent(), tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskUnsupported):
        await play(OracleAgent(), tmp_path, step=make_step(solution_dir=tmp_path / "empty"))


async def test_a_variable_that_the_solution_needs_must_be_set(tmp_path: Path) -> None:
    step = make_step(solution_dir=solution(tmp_path, "true"), solution_env={"KEY": "${NOT_SET_ANYWHERE}"})
    with pytest.raises(TaskInvalid, match="NOT_SET_ANYWHERE"):
        await play(OracleAgent(), tmp_path, step=step)
