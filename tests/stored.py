"""Trials on disk with what a test says of them, for tests of the index and of the store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.failures import Outcome
from harness.records import AgentInfo, AgentUsage, Behaviour, TrialResult, VerifierResult

Call = tuple[str, str, int | None]
"""Tool, command, exit code."""


def trial(
    jobs: Path,
    name: str = "t__1",
    *,
    job: str = "job",
    outcome: Outcome = Outcome.SCORED,
    reward: float | None = None,
    rewards: dict[str, float] | None = None,
    calls: Sequence[Call] = (),
    agent: str = "agent",
    **fields: Any,
) -> Path:
    """One execution's folder; its attempt and retry are those of the folder's name unless they are given."""
    folder = jobs / job / name
    folder.mkdir(parents=True, exist_ok=True)
    task, _, number = name.rpartition("__")
    attempt, _, retry = number.partition("r")
    if reward is not None:
        rewards = {"reward": reward, **(rewards or {})}
    values: dict[str, Any] = {
        "task_name": task,
        "task_checksum": f"digest of {task}",
        "attempt": int(attempt),
        "retry": int(retry or 0),
        "started_at": "2026-11-01T12:00:00Z",
        "finished_at": "2026-11-01T12:01:00Z",
        "agent_result": AgentUsage(),
        "behaviour": Behaviour(),
        **fields,
    }
    if calls:
        write_trajectory(folder / "agent" / "trajectory.json", calls, agent=agent)
    record = TrialResult(
        id=name,
        trial_name=name,
        trial_uri=f"file:///{name}",
        task_id={"path": task},
        config={"trial_name": name},
        agent_info=AgentInfo(name=agent, version="1"),
        verifier_result=None if rewards is None else VerifierResult(rewards=rewards),
        reward_valid=reward is not None,
        outcome=outcome,
        reward=reward,
        **values,
    )
    (folder / "result.json").write_text(record.model_dump_json())
    return folder


def write_trajectory(path: Path, calls: Sequence[Call], *, agent: str = "agent") -> None:
    """A trajectory of one turn for each call."""
    path.parent.mkdir(parents=True, exist_ok=True)
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": "go"}]
    for number, (tool, command, code) in enumerate(calls):
        steps.append(
            {
                "step_id": number + 2,
                "source": "agent",
                "message": "",
                "tool_calls": [
                    {"tool_call_id": f"c{number}", "function_name": tool, "arguments": {"command": command}}
                ],
                "observation": {
                    "results": [{"source_call_id": f"c{number}", "content": "", "extra": {"exit_code": code}}]
                },
            }
        )
    document = {"schema_version": "ATIF-v1.7", "agent": {"name": agent, "version": "1"}, "steps": steps}
    path.write_text(json.dumps(document))
