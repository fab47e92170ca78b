"""The behaviour in a job's folder, trial by trial: as recorded, or counted from the trajectories where it is not.

Records of Harbor's hold none, and those of an older harness only some of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from harness.atif.reader import TrajectoryInvalid, load_trajectory
from harness.behaviour.combine import in_sequence
from harness.behaviour.meter import behaviour_of
from harness.behaviour.totals import Observed
from harness.failures import AgentStop
from harness.records import Behaviour, Timing, TrialResult
from harness.store.layout import JobPaths, TrialPaths
from harness.store.reader import read_results


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTrial:
    """The last execution of one attempt. `observed` is None where no trajectory was kept."""

    name: str
    task: str
    agent: str
    categories: tuple[str, ...]
    observed: Observed | None


def observed_trials(paths: JobPaths) -> tuple[list[ObservedTrial], list[str]]:
    """Every attempt of a job, ours or Harbor's, and one line for each file that could not be read."""
    last: dict[tuple[str, int], TrialResult] = {}
    folders: dict[tuple[str, int], Path] = {}
    findings: list[str] = []
    for name, result, problem in read_results(paths):
        if result is None:
            findings.append(f"{name}: {problem}")
            continue
        key = (result.task_name, result.attempt)
        if key not in last or result.retry >= last[key].retry:
            last[key], folders[key] = result, paths.trial(name).root
    return [_observe(result, TrialPaths(folders[key]), findings) for key, result in last.items()], findings


def _observe(result: TrialResult, paths: TrialPaths, findings: list[str]) -> ObservedTrial:
    behaviour: Behaviour | None = result.behaviour
    if result.behaviour.turns is None:
        behaviour = _from_trajectories(paths, findings)
    model = f" ({result.agent_info.model_info.name})" if result.agent_info.model_info else ""
    return ObservedTrial(
        name=paths.root.name,
        task=result.task_name,
        agent=result.agent_info.name + model,
        categories=tuple(result.categories or result.task_tags),
        observed=None if behaviour is None else _observed(result, behaviour),
    )


def _observed(result: TrialResult, behaviour: Behaviour) -> Observed:
    steps = result.step_results or []
    verifiers = [result.verifier, *(step.verifier for step in steps)]
    out_of_time = AgentStop.TIMEOUT.value in (result.failure.tag if result.failure else None, *result.tags) or (
        result.exception_info is not None and result.exception_info.exception_type == "AgentTimeoutError"
    )
    return Observed(
        behaviour=behaviour,
        environment_sec=_seconds((result.environment_setup, result.agent_setup, *verifiers)),
        total_sec=Timing(started_at=result.started_at, finished_at=result.finished_at).seconds,
        out_of_time=out_of_time,
    )


def _seconds(phases: Iterable[Timing | None]) -> float | None:
    known = [phase.seconds for phase in phases if phase is not None and phase.seconds is not None]
    return sum(known) if known else None


def _from_trajectories(paths: TrialPaths, findings: list[str]) -> Behaviour | None:
    """Counted from the trial's trajectory, or from those of its steps; None where none can be read."""
    counted = []
    for file in paths.trajectories():
        try:
            counted.append(behaviour_of(load_trajectory(file)))
        except (OSError, TrajectoryInvalid) as error:
            findings.append(" ".join(str(error).split())[:300])
    return reduce(in_sequence, counted) if counted else None
