"""The agent that repeats a recorded run: it makes the same calls again, and asks no model.

Calls of our own tools are repeated as they are: memory and questions to the user where the task has them, and a sub-
agent's calls where its trajectory is embedded, one sub-agent after another. Of other agents, what runs a shell command
is repeated as `bash`: `bash_command` (a terminal's keystrokes, without the keys that only a terminal knows), `bash`,
`Bash`, `shell`, `execute_bash`, `run_command`, `run_shell_command`, `exec_command`, `terminal`, with their command
under `command`, `cmd`, `keystrokes` or `input`. Whatever else was called is recorded as not repeated. A terminal keeps
its directory and variables between commands, which is not repeated either; nor is what an agent uploaded, such as the
oracle's solution.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from harness.agents.oracle import SOLUTION, OracleAgent
from harness.agents.protocol import AgentResult, AgentRun
from harness.agents.tool_calling.calls import Call, parse_call
from harness.agents.tool_calling.tools import TOOLS, Tool, ToolLimits, ToolResult, Workbench, run_tool
from harness.agents.tool_calling.toolset import toolset
from harness.atif.model import Step, ToolCall, Trajectory
from harness.atif.reader import TrajectoryInvalid, load_trajectory
from harness.atif.writer import TrajectoryWriter
from harness.behaviour.calls import SHELLS, command_of
from harness.errors import TaskUnsupported, UsageError
from harness.failures import AgentStop
from harness.llm.protocol import ToolRequest
from harness.store.files import read_json
from harness.store.layout import TrialPaths

_TERMINAL_KEYS = re.compile(r"C-[a-z]|M-[a-z]|Enter|Escape|Tab|Up|Down|Left|Right")


class ReplayConfig(BaseModel):
    """What to repeat; times in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Path
    """A trajectory, or a job's folder, ours or Harbor's, in which the task is found by its name."""
    command_timeout_sec: float = Field(default=600.0, gt=0)
    """For a recorded command that names no timeout."""


class ReplayAgent:
    """Repeats recorded calls. The first recorded attempt of a task, by the name of its folder, is what is repeated."""

    name = "replay"
    version = "1.0"
    model_name = None

    def __init__(self, config: ReplayConfig) -> None:
        self._config = config

    async def run(self, run: AgentRun) -> AgentResult:
        """Make the recorded calls, in order. Raises TaskUnsupported when there is no recording of this task."""
        recording = find_recording(self._config.source, run.task_name, run.step.name)
        deadline = time.monotonic() + run.timeout_sec
        bench = Workbench(
            sandbox=run.sandbox,
            limits=ToolLimits(command_sec=self._config.command_timeout_sec, max_command_sec=run.timeout_sec),
            time_left=lambda: deadline - time.monotonic(),
            user=run.step.agent_user,
        )
        run.trajectory.user(run.step.instruction, extra={"replayed_session": recording.session_id})
        if recording.agent.name == OracleAgent.name and run.step.solution_dir is not None:
            await run.sandbox.upload(run.step.solution_dir, SOLUTION)
        session = run.session
        tools = toolset(memory_dir=session.interaction.memory_dir, user=session.user, step=run.step.name)
        replay = _Replay(bench, tools)
        in_time = await replay.play(recording, run.trajectory)
        metadata = {"repeated": replay.repeated, "not_repeated": replay.skipped}
        if not in_time:
            return AgentResult(stop=AgentStop.TIMEOUT, detail="no time left", metadata=metadata)
        total = replay.repeated + replay.skipped
        detail = f"{replay.skipped} of {total} calls could not be repeated" if replay.skipped else None
        return AgentResult(detail=detail, metadata=metadata)

    async def close(self) -> None:
        """Nothing to release."""


class _Replay:
    """Repeats trajectories, sub-agents' included, one call after another."""

    def __init__(self, bench: Workbench, tools: Mapping[str, Tool]) -> None:
        self.repeated = self.skipped = 0
        self._bench = bench
        self._tools = tools

    async def play(self, recording: Trajectory, trajectory: TrajectoryWriter) -> bool:
        """Make the calls of one trajectory; False if the time ran out."""
        embedded = {each.trajectory_id: each for each in recording.subagent_trajectories or ()}
        for step in recorded_calls(recording):
            calls = step.tool_calls or []
            message = step.message if isinstance(step.message, str) else ""
            trajectory.agent(message, tool_calls=calls, llm_calls=0, extra={"replayed_step": step.step_id})
            for call in calls:
                if self._bench.time_left() <= 0:
                    return False
                delegated = embedded.get(_subagent_of(step, call))
                if delegated is not None:
                    if not await self._delegate(call, delegated, trajectory):
                        return False
                    trajectory.result(call.tool_call_id, "[its calls were repeated]")
                    continue
                result = await self._repeat(call)
                trajectory.result(call.tool_call_id, result.content, extra=result.extra())
        return True

    async def _delegate(self, call: ToolCall, recording: Trajectory, trajectory: TrajectoryWriter) -> bool:
        description = str((recording.extra or {}).get("description", ""))
        inner = trajectory.subagent(call.tool_call_id, description=description)
        try:
            inner.user(str(call.arguments.get("prompt", "")), extra={"replayed_session": recording.session_id})
            return await self.play(recording, inner)
        finally:
            inner.close()

    async def _repeat(self, call: ToolCall) -> ToolResult:
        ours = repeatable(call, self._tools)
        if ours is not None and ours.tool is not None and ours.arguments is not None:
            self.repeated += 1
            return await run_tool(ours.tool, ours.arguments, self._bench)
        self.skipped += not _never_ran(call)
        return ToolResult(content="[not repeated]", error="not_repeated")


def create_replay(config: ReplayConfig, name: str) -> ReplayAgent:
    """The agent. Raises UsageError when there is nothing at `source`."""
    if not config.source.exists():
        raise UsageError(f"agent {name!r}: there is no trajectory and no job folder at {config.source}")
    return ReplayAgent(config)


def find_recording(source: Path, task_name: str, step_name: str | None) -> Trajectory:
    """The trajectory of a task, or of one of its steps. Raises TaskUnsupported when there is none that can be read."""
    path = source if source.is_file() else _path_in_job(source, task_name, step_name)
    if path is None:
        raise TaskUnsupported(f"{source} holds no trajectory of task {task_name!r}")
    try:
        return load_trajectory(path)
    except TrajectoryInvalid as error:
        raise TaskUnsupported(f"the recording cannot be replayed: {error}") from error


def _path_in_job(job: Path, task_name: str, step_name: str | None) -> Path | None:
    for trial in sorted(result.parent for result in job.glob("*/result.json")):
        paths = TrialPaths(trial)
        if _task_of(paths) == task_name and paths.has_trajectory(step_name):
            return paths.trajectory(step_name)
    return None


def recorded_calls(recording: Trajectory) -> Iterator[Step]:
    """The agent's steps with calls, without what was copied from an earlier trajectory."""
    return (step for step in recording.steps if step.tool_calls and not step.is_copied_context)


def repeatable(call: ToolCall, tools: Mapping[str, Tool] = TOOLS) -> Call | None:
    """The call as ours, or None: it never ran, or we have nothing like it."""
    if _never_ran(call):
        return None
    ours = _parsed(call, call.function_name, call.arguments, tools)
    if not ours.fault or call.function_name not in SHELLS:
        return None if ours.fault else ours
    command = command_of(call)
    if command is None or not command.strip() or _TERMINAL_KEYS.fullmatch(command.strip()):
        return None
    shell = _parsed(call, "bash", {"command": command}, tools)
    return None if shell.fault else shell


def _subagent_of(step: Step, call: ToolCall) -> str | None:
    """The embedded trajectory that the call's result refers to."""
    for result in step.observation.results if step.observation else ():
        if result.source_call_id == call.tool_call_id:
            return next((ref.trajectory_id for ref in result.subagent_trajectory_ref or ()), None)
    return None


def _never_ran(call: ToolCall) -> bool:
    """Whether the recorded call was refused for its form."""
    return (call.extra or {}).get("fault") is not None


def _parsed(call: ToolCall, name: str, arguments: dict[str, Any], tools: Mapping[str, Tool]) -> Call:
    return parse_call(ToolRequest(id=call.tool_call_id, name=name, arguments=json.dumps(arguments)), tools)


def _task_of(trial: TrialPaths) -> str | None:
    try:
        return str(read_json(trial.result)["task_name"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
