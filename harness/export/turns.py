"""What the agent's turns called and how that ended: from the trajectory's structured results, never from any text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.atif.model import Step, ToolCall, Trajectory
from harness.atif.reader import load_trajectory
from harness.behaviour.calls import command_of
from harness.behaviour.meter import failure_of
from harness.behaviour.shell import program_of
from harness.errors import UsageError
from harness.records import TrialResult
from harness.store.layout import TrialPaths
from harness.store.rollout.call import MAIN


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn; see `Span`."""

    tools: tuple[str, ...]
    tool_errors: int | None


Turns = Mapping[tuple[str, int | None], Turn]
"""By session and step, as sampled calls name them."""


def turns_of(paths: TrialPaths, result: TrialResult) -> Turns:
    """The turns of an attempt; none where it left no trajectory that can be read."""
    steps: list[str | None] = [each.step_name for each in result.step_results or ()] or [None]
    found: dict[tuple[str, int | None], Turn] = {}
    for step in steps:
        try:
            trajectory = load_trajectory(paths.trajectory(step))
        except (OSError, UsageError):
            continue
        for session, number, turn in _turns(trajectory, MAIN):
            found[session if step is None else f"{step}:{session}", number] = turn
    return found


def _turns(trajectory: Trajectory, session: str) -> Iterator[tuple[str, int, Turn]]:
    for step in trajectory.steps:
        if step.source == "agent" and not step.is_copied_context:
            yield session, step.step_id, Turn(tuple(map(_label, step.tool_calls or ())), _errors(step))
    for sub in trajectory.subagent_trajectories or ():
        yield from _turns(sub, sub.trajectory_id or "sub-agent")


def _label(call: ToolCall) -> str:
    command = command_of(call)
    program = program_of(command) if command is not None else ""
    return f"{call.function_name}:{program}" if program else call.function_name


def _errors(step: Step) -> int | None:
    """How many calls failed; None where nothing structured tells of any."""
    results = {each.source_call_id: each for each in (step.observation.results if step.observation else ())}
    known = []
    for call in step.tool_calls or ():
        result = results.get(call.tool_call_id)
        failed, _ = failure_of((result.extra if result is not None else None) or {})
        refused = (call.extra or {}).get("fault") is not None
        known.append(True if refused else failed)
    told = [failed for failed in known if failed is not None]
    return sum(told) if told or not known else None
