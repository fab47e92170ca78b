"""A trajectory step by step, each call next to what it returned, within the bounds of a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evals.report.bounds import Bounds
from harness import packed
from harness.atif.model import Content, ObservationResult, Step, ToolCall, Trajectory
from harness.atif.reader import TrajectoryInvalid, parse_trajectory


@dataclass(frozen=True, slots=True)
class Result:
    """What came back; `facts` are the structured ones, such as an exit code."""

    text: str
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call with what it returned; results that belong to no call have none."""

    name: str | None
    arguments: str
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One step. `after` is in seconds since the first."""

    number: int
    source: str
    after: float | None
    message: str
    reasoning: str
    exchanges: tuple[Exchange, ...]
    tokens: tuple[int | None, int | None]
    copied: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What is shown of one trajectory: turns before and after the `left_out` ones, or why there are none."""

    title: str
    problem: str | None = None
    first: tuple[Turn, ...] = ()
    left_out: int = 0
    last: tuple[Turn, ...] = ()
    agents: tuple[Account, ...] = ()

    @property
    def turns(self) -> int:
        return len(self.first) + self.left_out + len(self.last)


def account(root: Path, path: Path, title: str, bounds: Bounds) -> Account:
    """The trajectory in a file below `root`; nothing outside of it is ever read."""
    try:
        return _account(load(root, path, bounds), title, bounds, bounds.nested)
    except Unreadable as why:
        return Account(title=title, problem=str(why))


class Unreadable(ValueError):
    """There is no trajectory to show; the message says why, in a line."""


def load(root: Path, path: Path, bounds: Bounds) -> Trajectory:
    """The document in a file below `root`; nothing outside of it is ever read. Raises Unreadable."""
    found = packed.find(path)
    if found is None or not found.resolve().is_relative_to(root.resolve()):
        raise Unreadable("No trajectory was recorded.")
    if (size := found.stat().st_size) > bounds.file:
        raise Unreadable(f"The trajectory is too large to show: {size:,} bytes.")
    try:
        return parse_trajectory(packed.read_bytes(path, max_bytes=bounds.file), where=str(path))
    except (TrajectoryInvalid, ValueError) as error:
        why = str(error).removeprefix(f"{path}: ")
        raise Unreadable(f"The trajectory cannot be read: {why[:500]}") from error
    except OSError as error:
        raise Unreadable(f"The trajectory cannot be read: {error.strerror}") from error


def _account(trajectory: Trajectory, title: str, bounds: Bounds, depth: int) -> Account:
    steps = trajectory.steps
    more = max(0, len(steps) - bounds.steps)
    half = bounds.steps // 2
    first, last = (steps, []) if not more else (steps[: bounds.steps - half], steps[len(steps) - half :])
    began = when(steps[0])
    agents = (trajectory.subagent_trajectories or []) if depth else []
    return Account(
        title=title,
        first=tuple(turn_of(step, began) for step in first),
        left_out=more,
        last=tuple(turn_of(step, began) for step in last),
        agents=tuple(
            _account(agent, f"Subagent {agent.trajectory_id or ''}".rstrip(), bounds, depth - 1) for agent in agents
        ),
    )


def turn_of(step: Step, began: datetime | None) -> Turn:
    """A step as it is shown; `began` is when the first one was."""
    metrics = step.metrics
    return Turn(
        number=step.step_id,
        source=step.source,
        after=_between(began, when(step)),
        message=text_of(step.message),
        reasoning=step.reasoning_content or "",
        exchanges=_exchanges(step.tool_calls or [], step.observation.results if step.observation else []),
        tokens=(metrics.prompt_tokens, metrics.completion_tokens) if metrics else (None, None),
        copied=bool(step.is_copied_context),
    )


def _exchanges(calls: Sequence[ToolCall], results: Sequence[ObservationResult]) -> tuple[Exchange, ...]:
    paired = [
        Exchange(
            call.function_name,
            _arguments(call.arguments),
            tuple(_result(result) for result in results if result.source_call_id == call.tool_call_id),
        )
        for call in calls
    ]
    loose = tuple(_result(result) for result in results if result.source_call_id is None)
    return (*paired, Exchange(None, "", loose)) if loose else tuple(paired)


def _arguments(arguments: Mapping[str, object]) -> str:
    """A lone text as it is, for a command reads better so; of several, each by its name."""
    values = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in arguments.items()
    }
    if len(values) == 1 and isinstance(next(iter(arguments.values())), str):
        return next(iter(values.values()))
    return "\n".join(f"{name}:{chr(10) if chr(10) in value else ' '}{value}" for name, value in values.items())


def _result(result: ObservationResult) -> Result:
    facts = [
        f"{name.replace('_', ' ')} {value:g}" if isinstance(value, float) else f"{name.replace('_', ' ')} {value}"
        for name, value in (result.extra or {}).items()
        if isinstance(value, bool | int | float | str) and len(str(value)) <= 60
    ]
    facts += [f"see subagent {ref.trajectory_id}" for ref in result.subagent_trajectory_ref or () if ref.trajectory_id]
    return Result(text_of(result.content), tuple(facts[:8]))


def text_of(content: Content | None) -> str:
    """A message as text; parts that are not text are named."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(
        part.text if part.text is not None else f"[{part.type}: {part.source.path if part.source else '?'}]"
        for part in content
    )


def when(step: Step) -> datetime | None:
    """When a step was made, where it tells."""
    return datetime.fromisoformat(step.timestamp) if step.timestamp else None


def _between(began: datetime | None, now: datetime | None) -> float | None:
    if began is None or now is None or (began.tzinfo is None) != (now.tzinfo is None):
        return None
    return (now - began).total_seconds()
