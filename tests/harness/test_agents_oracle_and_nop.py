"""The agent that knows the answer, and the one that does nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_runs import make_step, play
from folder_sandbox import FolderSandbox

from backends.spec import ExecuteResponse
from harness.agents.nop import NopAgent
from harness.agents.oracle import OracleAgent
from harness.errors import TaskInvalid, TaskUnsupported
from harness.failures import AgentStop


class Mounted(FolderSandbox):
    """A folder in which /solution, too, lies below the root."""

    async def execute(self, command: str, **options: Any) -> ExecuteResponse:
        return await super().execute(command.replace("/solution", str(self.root / "solution")), **options)


def box(folder: Path) -> Mounted:
    """An empty sandbox."""
    root = folder / "box"
    root.mkdir()
    return Mounted(root)


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


async def test_the_oracle_runs_the_solution_with_its_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSWER", "42")
    step = make_step(
        solution_dir=solution(tmp_path, "#!/bin/bash\necho $VALUE $OTHER > out.txt; echo ran"),
        solution_env={"VALUE": "${ANSWER}", "OTHER": "${NOT_SET_ANYWHERE:-x}"},
    )
    ran = await play(OracleAgent(), tmp_path, box(tmp_path), step=step)
    assert (tmp_path / "box/out.txt").read_text() == "42 x\n"
    assert (ran.result.stop, ran.result.detail) == (AgentStop.FINISHED, None)
    assert ran.shown("solve") == "ran"
    assert ran.facts("solve")["exit_code"] == 0
    assert ran.trajectory.final_metrics is not None and ran.trajectory.final_metrics.total_prompt_tokens is None


@pytest.mark.parametrize(
    "script", ["#!/usr/bin/env perl\nprint 'ran'; exit 3;", "echo ran; exit 3", "#!/bin/sh\necho ran\nexit 3\n"]
)
async def test_a_solution_that_fails_is_recorded_and_not_fatal(tmp_path: Path, script: str) -> None:
    step = make_step(solution_dir=solution(tmp_path, script))
    ran = await play(OracleAgent(), tmp_path, box(tmp_path), step=step)
    assert (ran.result.stop, ran.result.metadata) == (AgentStop.FINISHED, {"exit_code": 3})
    assert ran.result.detail == "solve.sh ended with exit code 3"
    assert ran.shown("solve") == "ran"


async def test_a_solution_that_misses_the_deadline_is_a_timeout(tmp_path: Path) -> None:
    step = make_step(solution_dir=solution(tmp_path, "echo begun; sleep 30"))
    ran = await play(OracleAgent(), tmp_path, box(tmp_path), step=step, timeout_sec=0.3)
    assert ran.result.stop is AgentStop.TIMEOUT
    assert (ran.shown("solve"), ran.facts("solve")["exit_code"]) == ("begun", 124)
