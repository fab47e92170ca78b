"""The agents in a real sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_runs import make_run, make_step, say, scripted_agent
from local_boxes import local_provider, plain_spec

from backends.lifecycle import open_sandbox
from backends.protocol import SandboxBackendProtocol
from harness.agents.oracle import OracleAgent
from harness.agents.protocol import Agent, AgentResult
from harness.agents.replay import ReplayAgent, ReplayConfig
from harness.atif.model import Trajectory
from harness.atif.reader import load_trajectory
from harness.failures import AgentStop
from harness.task.model import Step


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[SandboxBackendProtocol]:
    """A local sandbox with an empty /app."""
    async with local_provider() as provider, open_sandbox(provider, plain_spec(tmp_path)) as live:
        yield live


async def play(
    agent: Agent, folder: Path, sandbox: SandboxBackendProtocol, step: Step | None = None
) -> tuple[AgentResult, Trajectory]:
    folder.mkdir(exist_ok=True)
    run = make_run(folder, sandbox, step=step)
    result = await agent.run(run)
    run.trajectory.close()
    return result, load_trajectory(run.trajectory.path)


def shown(trajectory: Trajectory) -> dict[str, object]:
    return {
        str(result.source_call_id): result.content
        for step in trajectory.steps
        if step.observation
        for result in step.observation.results
    }


async def test_every_tool_works_in_a_sandbox_and_the_run_can_be_replayed(
    tmp_path: Path, sandbox: SandboxBackendProtocol
) -> None:
    agent, _ = scripted_agent(
        say("", ("write", {"path": "/app/d/f.txt", "content": "one\ntwo\n"}, "c1")),
        say(
            "",
            ("read", {"path": "d/f.txt"}, "c2"),
            ("ls", {"path": "/app"}, "c3"),
            ("grep", {"pattern": "^t", "path": "/app"}, "c4"),
            ("glob", {"pattern": "**/*.txt", "path": "/app"}, "c5"),
            ("grep", {"pattern": "("}, "c6"),
            ("read", {"path": "/nothing"}, "c7"),
        ),
        say(
            "",
            ("edit", {"path": "/app/d/f.txt", "old": "one", "new": "1"}, "c8"),
            ("edit", {"path": "/app/d/f.txt", "old": "absent", "new": "1"}, "c9"),
            ("bash", {"command": "cat d/f.txt; pwd; exit 3"}, "c10"),
            ("bash", {"command": "echo begun; sleep 30", "timeout_sec": 1}, "c11"),
        ),
    )
    result, trajectory = await play(agent, tmp_path / "first", sandbox)
    assert result.stop is AgentStop.FINISHED
    seen = shown(trajectory)
    assert seen["c2"] == "one\ntwo\n"
    assert seen["c3"] == "/app/d/"
    assert seen["c4"] == "/app/d/f.txt:2:two"
    assert seen["c5"] == "/app/d/f.txt"
    assert str(seen["c6"]).startswith("error: the pattern is not")
    assert seen["c7"] == "error: no such file or directory: /nothing"
    assert seen["c8"] == "replaced 1 in /app/d/f.txt"
    assert "does not occur" in str(seen["c9"])
    assert seen["c10"] == "1\ntwo\n/app\n[exit code 3]"
    assert seen["c11"] == "begun\n[exit code 124: killed after 1 s]"
    await sandbox.execute("rm -rf /app/d", timeout=10)
    replay = ReplayAgent(ReplayConfig(source=tmp_path / "first/agent/trajectory.json"))
    result, trajectory = await play(replay, tmp_path / "again", sandbox)
    assert result.detail is None
    assert shown(trajectory) == seen


async def test_the_oracle_solves_in_a_sandbox(tmp_path: Path, sandbox: SandboxBackendProtocol) -> None:
    (tmp_path / "solution").mkdir()
    (tmp_path / "solution/solve.sh").write_text("#!/bin/bash\ncp /solution/answer.txt . && echo $WORD >> answer.txt\n")
    (tmp_path / "solution/answer.txt").write_text("the answer\n")
    step = make_step(solution_dir=tmp_path / "solution", solution_env={"WORD": "hello"})
    result, _ = await play(OracleAgent(), tmp_path / "run", sandbox, step)
    assert result.metadata == {"exit_code": 0}
    assert await sandbox.read("/app/answer.txt") == b"the answer\nhello\n"
