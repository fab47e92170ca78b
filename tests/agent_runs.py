"""Runs of agents for tests: a step, a folder as the sandbox, a trajectory, and a scripted or a served model."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from folder_sandbox import FolderSandbox

from backends.protocol import SandboxBackendProtocol
from harness.agents.protocol import Agent, AgentResult, AgentRun
from harness.agents.tool_calling.config import LoopConfig
from harness.agents.tool_calling.loop import ToolCallingAgent
from harness.atif.model import ObservationResult, Trajectory
from harness.atif.reader import findings, load_trajectory
from harness.atif.writer import TrajectoryWriter
from harness.llm.protocol import CallContext, ContextOverflow, Message, Reply, ToolRequest, ToolSchema
from harness.llm.scripted import Script, ScriptedModel
from harness.store.rollout import RolloutWriter
from harness.task.model import Limit, Step


def make_step(**fields: Any) -> Step:
    """A step with the least that it needs."""
    limit = Limit(value=60.0, origin="default")
    return Step(
        **{
            "name": None,
            "instruction": "Do it.",
            "tests": (),
            "solution_dir": None,
            "agent_timeout": limit,
            "verifier_timeout": limit,
            **fields,
        }
    )


@dataclass
class Ran:
    """What a run left."""

    result: AgentResult
    trajectory: Trajectory
    sandbox: FolderSandbox

    @property
    def results(self) -> dict[str, ObservationResult]:
        """Every call's result by its id."""
        return {
            str(result.source_call_id): result
            for step in self.trajectory.steps
            if step.observation
            for result in step.observation.results
        }

    def shown(self, call_id: str) -> str:
        """What the model was shown of a call."""
        content = self.results[call_id].content
        assert isinstance(content, str)
        return content

    def facts(self, call_id: str) -> dict[str, Any]:
        """What the record holds of a call."""
        return self.results[call_id].extra or {}


def make_run(
    folder: Path, sandbox: SandboxBackendProtocol, *, task_name: str = "t", step: Step | None = None, **fields: Any
) -> AgentRun:
    """A run in a sandbox, recorded below a folder."""
    writer = TrajectoryWriter(
        folder / "agent" / "trajectory.json", session_id="s", agent_name="a", agent_version="1", model_name=None
    )
    return AgentRun(
        task_name=task_name,
        step=step or make_step(),
        sandbox=sandbox,
        trajectory=writer,
        rollout=RolloutWriter(folder / "agent" / "rollout.bin"),
        logs_dir=folder,
        **{"timeout_sec": 60.0, "seed": 0, **fields},
    )


async def play(agent: Agent, folder: Path, sandbox: FolderSandbox | None = None, **fields: Any) -> Ran:
    """Run an agent to its end; whatever it did, what it left is valid."""
    if sandbox is None:
        (folder / "box").mkdir(exist_ok=True)
        sandbox = FolderSandbox(folder / "box")
    run = make_run(folder, sandbox, **fields)
    try:
        result = await agent.run(run)
    finally:
        run.trajectory.close()
        run.rollout.close()
    trajectory = load_trajectory(run.trajectory.path)
    assert findings(trajectory) == []
    return Ran(result, trajectory, sandbox)


def say(text: str = "", *calls: tuple[str, Any] | tuple[str, Any, str], **fields: Any) -> dict[str, Any]:
    """One scripted reply; a call is (name, arguments[, id]), its arguments a dict or raw text."""
    made = [{"name": each[0], "arguments": each[1], **({"id": each[2]} if len(each) > 2 else {})} for each in calls]
    return {"text": text, "calls": made, **fields}


class Watched(ScriptedModel):
    """A scripted model that remembers what it was sent and insists, as endpoints do, that a history is valid."""

    def __init__(self, script: Script, *, overflows_at: Sequence[int] = ()) -> None:
        super().__init__(script)
        self.sent: list[list[Message]] = []
        self.contexts: list[CallContext] = []
        self.overflows_at = overflows_at

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema], context: CallContext) -> Reply:
        require_valid(messages)
        self.sent.append(list(messages))
        self.contexts.append(context)
        if len(self.sent) in self.overflows_at:
            raise ContextOverflow("HTTP 400: too long")
        return await super().complete(messages, tools, context)


def require_valid(messages: Sequence[Message]) -> None:
    """What endpoints insist on: every call is answered, next, once; names and arguments are well-formed; no gaps."""
    open_calls: list[ToolRequest] = []
    for message in messages:
        if message.role == "tool":
            assert message.tool_call_id in {call.id for call in open_calls}, "a result without its call"
            open_calls = [call for call in open_calls if call.id != message.tool_call_id]
            continue
        assert not open_calls, f"calls without results: {open_calls}"
        assert message.content or message.tool_calls, "an empty message"
        open_calls = list(message.tool_calls)
        for call in open_calls:
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call.name)
            assert isinstance(json.loads(call.arguments), dict)
    assert not open_calls
    assert all(one.role != "user" or two.role != "user" for one, two in pairwise(messages))


def scripted_agent(
    *replies: dict[str, Any], on_end: str = "finish", overflows_at: Sequence[int] = (), **config: Any
) -> tuple[ToolCallingAgent, Watched]:
    """The tool-calling agent with a model that says these things."""
    model = Watched(Script.model_validate({"replies": replies, "on_end": on_end}), overflows_at=overflows_at)
    return ToolCallingAgent(LoopConfig(**config), model), model
