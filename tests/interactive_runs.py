"""Trials of tasks that talk with their agent: a real local sandbox, the tool-calling agent, and a scripted model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_runs import Watched
from builders import make_task

from backends.local.provider import LocalProvider
from harness.agents.protocol import Agent
from harness.agents.tool_calling.config import LoopConfig
from harness.agents.tool_calling.loop import ToolCallingAgent
from harness.atif.model import Trajectory
from harness.atif.reader import findings, load_trajectory
from harness.llm.scripted import Script
from harness.records import TrialResult
from harness.store.layout import JobPaths, TrialPaths
from harness.task.loader import load_task
from harness.task.model import Task
from harness.trial.runner import run_trial
from harness.trial.spec import TrialContext, TrialSpec

KEEP_USER = "#!/bin/sh\ncat /tests/user.json; echo 1 > /logs/verifier/reward.txt\n"
"""A verifier that prints what it was told of the user."""


@dataclass
class Played:
    """What a trial left, and what the model was sent."""

    result: TrialResult
    paths: TrialPaths
    model: Watched

    def trajectory(self, step: str | None = None) -> Trajectory:
        found = load_trajectory(self.paths.trajectory(step))
        assert findings(found) == []
        return found

    def shown(self, step: str | None = None) -> list[str]:
        """Every result that the agent was shown in a step, in order."""
        return results_of(self.trajectory(step))

    def user_json(self, step: str | None = None) -> dict[str, Any]:
        """What the verifier printed of /tests/user.json."""
        text = (self.paths.verifier(step) / "test-stdout.txt").read_text()
        document = json.loads(text)
        assert isinstance(document, dict)
        return document

    def system(self, call: int = 0) -> str:
        """The system prompt that the model was sent with a call."""
        message = self.model.sent[call][0]
        assert message.role == "system"
        return message.content


def results_of(trajectory: Trajectory) -> list[str]:
    """Every result in a trajectory, in order."""
    return [str(result.content) for step in trajectory.steps if step.observation for result in step.observation.results]


def interactive_task(folder: Path, harness: str = "", *, top: str = "", **fields: Any) -> Path:
    """A task with this in its `[metadata.harness]`, and with `top` at the head of its task.toml."""
    toml = f"{top}\n[metadata.harness]\n{harness}\n"
    return make_task(folder, toml=toml, **{"test": KEEP_USER, **fields})


def stepped_task(folder: Path, harness: str = "", *, names: Sequence[str] = ("one", "two"), **files: str) -> Path:
    """The same with steps."""
    steps = "\n".join(f'[[steps]]\nname = "{name}"' for name in names)
    contents = {f"steps/{name}/instruction.md": f"Do {name}." for name in names}
    contents |= {f"steps/{name}/tests/test.sh": KEEP_USER for name in names}
    return interactive_task(folder, harness, top=steps, files={**contents, **files})


async def play_trial(
    folder: Path,
    task: Path,
    script: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
    *,
    agent: Agent | None = None,
    context: Mapping[str, Any] | None = None,
    **config: Any,
) -> Played:
    """One trial of a task: with the scripted model, or another agent."""
    loaded = load_task(task)
    assert isinstance(loaded, Task), loaded
    document = script if isinstance(script, Mapping) else {"replies": list(script)}
    model = Watched(Script.model_validate(document))
    shared = TrialContext(
        agent=agent or ToolCallingAgent(LoopConfig(**config), model),
        paths=JobPaths(folder / "job"),
        job_id="j",
        emit=lambda event: None,
        **{"provider": LocalProvider(), **(context or {})},
    )
    spec = TrialSpec(task=loaded, attempt=1)
    result = await run_trial(spec, shared)
    return Played(result, shared.trial(spec), model)
