"""An attempt's model calls with their tokens: from its rollout files, or from the token ids in its trajectory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import packed
from harness.atif.model import Step, Trajectory
from harness.atif.reader import load_trajectory
from harness.errors import UsageError
from harness.records import TrialResult
from harness.store.layout import TrialPaths
from harness.store.rollout import RolloutReader, SampledCall
from harness.store.rollout.call import MAIN


class RecordedCalls:
    """One pass over the calls of one attempt, one prompt in memory at a time.

    Attributes:
        missing: calls that the record counts and no file tells of; their tokens are lost. Known after the pass.
        findings: what could not be read.
    """

    def __init__(self, paths: TrialPaths, result: TrialResult) -> None:
        self._paths = paths
        self._steps = _steps(result)
        self.missing = 0
        self.findings: list[str] = []

    def __iter__(self) -> Iterator[SampledCall]:
        """The calls in the order in which they were made, of all the attempt's steps."""
        for step, counted in self._steps:
            if self._paths.rollout(step).is_file():
                calls = self._in_rollout(self._paths.rollout(step), counted)
            else:
                calls = self._in_trajectory(self._paths.trajectory(step))
            for call in calls:
                yield call if step is None else _of_step(call, step)

    def _in_rollout(self, path: Path, counted: int) -> Iterator[SampledCall]:
        reader = RolloutReader(path)
        seen = 0
        try:
            for call in reader:
                seen += 1
                yield call
        except (OSError, ValueError) as error:
            self.findings.append(f"{path}: {error}")
        self.findings += [f"{path}: {finding}" for finding in reader.findings]
        self.missing += max(0, counted - seen)

    def _in_trajectory(self, path: Path) -> Iterator[SampledCall]:
        """Harbor keeps the ids in the trajectory's metrics; a step of several calls has ids of none in particular."""
        try:
            calls = list(trajectory_calls(load_trajectory(path))) if _may_hold_tokens(path) else []
        except FileNotFoundError:
            return
        except (OSError, ValueError, UsageError) as error:
            self.findings.append(f"{path}: {error}")
            return
        if any(call.completion_ids is not None for call in calls):
            yield from calls


def _steps(result: TrialResult) -> list[tuple[str | None, int]]:
    """The attempt's steps with the number of calls that the record counts."""
    if result.step_results:
        return [(each.step_name, each.agent_result.n_calls if each.agent_result else 0) for each in result.step_results]
    return [(None, result.agent_result.n_calls if result.agent_result else 0)]


def _of_step(call: SampledCall, step: str) -> SampledCall:
    """A call under names that are unique in an attempt of several steps."""
    return replace(call, call_id=f"{step}:{call.call_id}", session=f"{step}:{call.session}")


def _may_hold_tokens(path: Path) -> bool:
    """Whether the document mentions sampled ids at all: parsing a long text-only trajectory would be for nothing."""
    return b'"completion_token_ids"' in packed.read_bytes(path)


def trajectory_calls(trajectory: Trajectory, session: str = MAIN) -> Iterator[SampledCall]:
    """The calls that a trajectory and its embedded sub-agents hold; what was copied from elsewhere is not one."""
    for step in trajectory.steps:
        if step.source == "agent" and not step.is_copied_context and step.llm_call_count != 0:
            yield _call_of(step, session, trajectory.agent.model_name)
    for sub in trajectory.subagent_trajectories or ():
        yield from trajectory_calls(sub, sub.trajectory_id or "sub-agent")


def _call_of(step: Step, session: str, model: str | None) -> SampledCall:
    metrics, several = step.metrics, (step.llm_call_count or 1) > 1
    extra: dict[str, Any] = (metrics.extra if metrics else None) or {}
    sampling = extra.get("sampling")
    known = metrics is not None and not several
    return SampledCall(
        call_id=f"{session}/{step.step_id}",
        session=session,
        step_id=step.step_id,
        prompt_ids=metrics.prompt_token_ids if known and metrics else None,
        completion_ids=metrics.completion_token_ids if known and metrics else None,
        logprobs=metrics.logprobs if known and metrics else None,
        finish_reason=extra.get("finish_reason"),
        sampling=sampling if isinstance(sampling, dict) else {},
        policy_version=extra.get("policy_version"),
        model=step.model_name or model,
    )
