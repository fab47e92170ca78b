"""A trial's folder as what the index keeps of it. The files may be hostile: nothing in them stops the indexing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any, overload

from harness import packed
from harness.atif.model import ObservationResult, Step, Trajectory
from harness.atif.reader import load_trajectory
from harness.behaviour.calls import command_of
from harness.behaviour.combine import in_sequence
from harness.behaviour.meter import behaviour_of
from harness.errors import UsageError, first_line
from harness.records import AgentUsage, Behaviour, Timing, TrialResult
from harness.store.index.rows import MAX_COMMAND, CallRow, Entry, TrialRow, stored_text, timestamp
from harness.store.layout import TrialPaths
from harness.store.reader import group_of, load_result

_MAX_NAME = 500
_INT64 = 1 << 63


class Unreadable(ValueError):
    """The folder holds no record that can be read; the message is one line."""


def read_entry(root: str, job: str, folder: Path) -> Entry:
    """What a trial's folder says. Raises Unreadable; a trajectory that cannot be read is the entry's `problem`."""
    paths = TrialPaths(folder)
    try:
        result = load_result(paths.result)
        row = _row(root, job, folder.name, result)
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise Unreadable(f"result.json: {_line(error)}") from None
    calls: list[CallRow] = []
    counted: list[Behaviour] = []
    problems: list[str] = []
    for part in _parts(result):
        try:
            trajectory = _trajectory(paths, part)
            if trajectory is not None:
                calls += _calls(trajectory, part, None)
                if result.behaviour.turns is None:
                    counted.append(behaviour_of(trajectory))
        except (OSError, ValueError, UsageError, RecursionError) as error:
            problems.append(f"{paths.trajectory(part).relative_to(folder)}: {_line(error)}")
    return Entry(
        row=row,
        behaviour=_behaviour(result, counted),
        rewards=_rewards(result),
        calls=calls,
        problem=stored_text("; ".join(problems))[:_MAX_NAME] or None,
    )


def _row(root: str, job: str, trial: str, result: TrialResult) -> TrialRow:
    if not (0 <= result.attempt < _INT64 and 0 <= result.retry < _INT64):
        raise ValueError("attempt and retry are counts")
    failure, model, sandbox = result.failure, result.agent_info.model_info, result.sandbox
    usage = result.agent_result or AgentUsage()
    assert result.outcome is not None  # load_result infers what a record lacks
    return TrialRow(
        root=root,
        job=job,
        trial=trial,
        task=_name(result.task_name),
        digest=_name(result.task_checksum),
        difficulty=_name(result.difficulty),
        outcome=result.outcome.value,
        reward=result.reward,
        failure_category=failure.category.value if failure else None,
        failure_tag=_name(failure.tag) if failure else None,
        failure_layer=failure.layer.value if failure else None,
        exception=_name(result.exception_info.exception_type) if result.exception_info else None,
        agent=_name(result.agent_info.name),
        agent_version=_name(result.agent_info.version),
        model=_name(model.name) if model else None,
        policy_version=_name(result.policy_version),
        group_id=_name(group_of(result)),
        attempt=result.attempt,
        retry=result.retry,
        numbered="attempt" in result.model_fields_set,
        seed=_whole(result.seed),
        started_at=_moment(result.started_at),
        finished_at=_moment(result.finished_at),
        seconds=Timing(started_at=result.started_at, finished_at=result.finished_at).seconds,
        environment_seconds=_seconds(result.environment_setup),
        agent_seconds=_seconds(result.agent_execution),
        verifier_seconds=_seconds(result.verifier),
        input_tokens=_whole(usage.n_input_tokens),
        cached_tokens=_whole(usage.n_cache_tokens),
        output_tokens=_whole(usage.n_output_tokens),
        cost_usd=usage.cost_usd,
        model_calls=_whole(usage.n_calls) if "n_calls" in usage.model_fields_set else None,
        sampled_calls=_whole(usage.n_sampled_calls) if "n_sampled_calls" in usage.model_fields_set else None,
        backend=_name(sandbox.backend) if sandbox else None,
        isolation=_name(sandbox.isolation) if sandbox else None,
        categories=_names(result.categories),
        tags=_names(result.task_tags),
    )


def _parts(result: TrialResult) -> list[str | None]:
    """The steps that have a trajectory of their own; a name that leads elsewhere is none."""
    if not result.step_results:
        return [None]
    return [each.step_name for each in result.step_results if Path(each.step_name).name == each.step_name]


def _trajectory(paths: TrialPaths, part: str | None) -> Trajectory | None:
    path = paths.trajectory(part)
    return load_trajectory(path) if packed.find(path) is not None else None


def _calls(trajectory: Trajectory, part: str | None, subagent: str | None) -> Iterator[CallRow]:
    """The calls of a trajectory and of its embedded sub-agents; what was copied from elsewhere is none."""
    for step in trajectory.steps:
        if step.tool_calls and not step.is_copied_context:
            yield from _calls_of_step(step, part, subagent)
    for inner in trajectory.subagent_trajectories or ():
        yield from _calls(inner, part, _name(inner.trajectory_id or "sub-agent"))


def _calls_of_step(step: Step, part: str | None, subagent: str | None) -> Iterator[CallRow]:
    results = {each.source_call_id: each for each in (step.observation.results if step.observation else ())}
    for position, call in enumerate(step.tool_calls or ()):
        command = command_of(call)
        facts = _facts(results.get(call.tool_call_id))
        yield CallRow(
            part=_name(part),
            subagent=subagent,
            step=step.step_id,
            position=position,
            tool=_name(call.function_name),
            command=None if command is None else stored_text(command[:MAX_COMMAND]),
            exit_code=_whole(facts.get("exit_code")),
            timed_out=facts.get("timed_out") is True,
        )


def _facts(result: ObservationResult | None) -> dict[str, Any]:
    return (result.extra if result is not None else None) or {}


def _behaviour(result: TrialResult, counted: list[Behaviour]) -> dict[str, Any] | None:
    """As recorded; counted from the trajectories where an older harness, or Harbor, recorded none."""
    if result.behaviour.turns is not None:
        found = result.behaviour
    elif counted:
        found = reduce(in_sequence, counted)
    else:
        return None
    return {name: value if isinstance(value, float) else _whole(value) for name, value in found}


def _rewards(result: TrialResult) -> dict[str, float]:
    rewards = (result.verifier_result.rewards if result.verifier_result else None) or {}
    return {_name(name): value for name, value in rewards.items() if math.isfinite(value)}


def _seconds(timing: Timing | None) -> float | None:
    return timing.seconds if timing else None


def _moment(value: datetime | None) -> str | None:
    return timestamp(value) if value is not None else None


def _whole(value: Any) -> int | None:
    """A count that fits the database; None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _INT64 else None


def _names(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(_name(value) for value in values))


@overload
def _name(value: str) -> str: ...
@overload
def _name(value: None) -> None: ...
def _name(value: str | None) -> str | None:
    """A name, shortened to what a name may reasonably have."""
    return None if value is None else stored_text(value[:_MAX_NAME])


def _line(error: BaseException) -> str:
    return stored_text(first_line(error))[:_MAX_NAME]
