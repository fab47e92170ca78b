"""What is wrong with the record of a trial: every file of it is read, and held against the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import packed, strict_json
from harness.atif.model import Trajectory
from harness.atif.reader import findings, load_trajectory, usage_of
from harness.behaviour.meter import behaviour_of
from harness.errors import UsageError, first_line
from harness.records import AgentUsage, Behaviour, TrialResult
from harness.store.layout import JobPaths, TrialPaths
from harness.store.reader import load_result
from harness.store.rollout import RolloutReader

_DOCUMENTS = ("config.json", "lock.json", "result.json", "artifacts/manifest.json")


@dataclass(frozen=True, slots=True)
class Damage:
    """A file, and what is wrong with it in a line."""

    path: Path
    problem: str


def damage_of_job(paths: JobPaths) -> Iterator[Damage]:
    """What is wrong with a job's own files; not with those of its trials."""
    for path in (paths.config, paths.lock, paths.result):
        yield from _not_strict(path)


def damage_of_trial(paths: TrialPaths) -> Iterator[Damage]:
    """What is wrong with a trial's files. One without a record was interrupted, which is no damage."""
    for name in _DOCUMENTS:
        yield from _not_strict(paths.root / name)
    try:
        result = load_result(paths.result)
    except FileNotFoundError:
        result = None
    except (OSError, ValueError) as error:
        yield Damage(paths.result, first_line(error))
        result = None
    for part in _parts(paths):
        yield from _trajectory(paths, part, result)
        yield from _rollout(paths, part, result)


def _parts(paths: TrialPaths) -> list[str | None]:
    return [None, *sorted(folder.name for folder in paths.root.glob("steps/*") if folder.is_dir())]


def _not_strict(path: Path) -> Iterator[Damage]:
    if packed.find(path) is None:
        return
    try:
        strict_json.loads(packed.read_bytes(path))
    except (OSError, ValueError) as error:
        yield Damage(path, first_line(error))


def _trajectory(paths: TrialPaths, part: str | None, result: TrialResult | None) -> Iterator[Damage]:
    path = paths.trajectory(part)
    if not paths.has_trajectory(part):
        behaviour = _recorded(part, result)[1] if result is not None and not result.step_results else Behaviour()
        if behaviour.turns is not None and behaviour.steps:
            yield Damage(path, f"it is not there, the record counted {behaviour.steps} steps")
        return
    try:
        strict_json.loads(packed.read_bytes(path))
        trajectory = load_trajectory(path)
    except (OSError, ValueError, UsageError) as error:
        yield Damage(path, first_line(error).removeprefix(f"{path}: "))
        return
    for finding in findings(trajectory):
        yield Damage(path, finding)
    if result is not None:
        yield from (Damage(path, line) for line in _against(trajectory, part, result))


def _against(trajectory: Trajectory, part: str | None, result: TrialResult) -> Iterator[str]:
    """Where the record and the trajectory say different things. What either does not tell is no difference."""
    if trajectory.agent.name != result.agent_info.name:
        yield f"it is of agent {trajectory.agent.name!r}, the record of {result.agent_info.name!r}"
    usage, behaviour = _recorded(part, result)
    found = behaviour_of(trajectory)
    if behaviour.turns is not None:
        for name in ("steps", "tool_calls"):
            said, is_now = getattr(behaviour, name), getattr(found, name)
            if said != is_now:
                yield f"it has {is_now} {name}, the record counted {said}"
    if trajectory.subagent_trajectories:  # their calls are in the record's totals, and not in the document's
        return
    tokens = usage_of(trajectory)
    for name, said, is_now in (
        ("prompt tokens", usage.n_input_tokens, tokens.prompt_tokens),
        ("completion tokens", usage.n_output_tokens, tokens.completion_tokens),
    ):
        if behaviour.turns is not None and said is not None and is_now is not None and said != is_now:
            yield f"it has {is_now} {name}, the record counted {said}"


def _rollout(paths: TrialPaths, part: str | None, result: TrialResult | None) -> Iterator[Damage]:
    path = paths.rollout(part)
    if not path.is_file() or path.is_symlink():
        usage = _recorded(part, result)[0] if result is not None else AgentUsage()
        if usage.n_sampled_calls:
            yield Damage(path, f"it is not there, the record counted {usage.n_sampled_calls} calls with their tokens")
        return
    reader = RolloutReader(path)
    sampled = 0
    try:
        for call in reader:
            ids, logprobs = call.completion_ids, call.logprobs
            sampled += ids is not None and logprobs is not None and len(ids) == len(logprobs)
    except (OSError, ValueError) as error:
        yield Damage(path, first_line(error))
        return
    for finding in reader.findings:
        yield Damage(path, finding)
    if result is not None and not reader.findings:
        said = _recorded(part, result)[0].n_sampled_calls
        if said != sampled:
            yield Damage(path, f"it has {sampled} calls with their tokens, the record counted {said}")


def _recorded(part: str | None, result: TrialResult) -> tuple[AgentUsage, Behaviour]:
    """What the record says of one part: of the whole trial, or of one of its steps."""
    if part is None:
        return result.agent_result or AgentUsage(), result.behaviour
    for step in result.step_results or ():
        if step.step_name == part:
            return step.agent_result or AgentUsage(), step.behaviour
    return AgentUsage(), Behaviour()
