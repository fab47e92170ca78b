"""Runs and jobs made of counts, for tests of what judges them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.run import Run, TaskRun
from harness.failures import FailureCategory, Layer, Outcome
from harness.records import AgentInfo, AgentUsage, Failure, TrialResult, VerifierResult, now


def task_run(name: str, passed: int, counted: int, total: int | None = None, **fields: Any) -> TaskRun:
    """A task with so many attempts passed, of those that count, of all."""
    lost = (total or counted) - counted
    values = {
        "digest": f"digest of {name}",
        "rewards": float(passed),
        "unscored": {"infra_error": lost} if lost else {},
    }
    values["priced"] = (total or counted) if fields.get("cost") is not None else 0
    return TaskRun(name=name, total=total or counted, counted=counted, passed=passed, **{**values, **fields})


def run_of(tasks: Sequence[TaskRun], **fields: Any) -> Run:
    """A run of these tasks."""
    missing = sum(task.missing for task in tasks)
    values = {"label": "run", "agent": "agent", "model": None, "pass_mark": 1.0, "outcomes": {"infra_error": missing}}
    return Run(tasks={task.name: task for task in tasks}, **{**values, **fields})


def uniform(tasks: int, passed: int, attempts: int, **fields: Any) -> Run:
    """The first `passed` attempts of the run's `tasks` x `attempts` pass, spread over tasks in turn."""
    each = [passed // tasks + (number < passed % tasks) for number in range(tasks)]
    return run_of([task_run(f"t{n:03}", p, attempts) for n, p in enumerate(each)], **fields)


def write_job(
    folder: Path,
    attempts: Mapping[str, Sequence[float | Outcome | None]],
    *,
    categories: Mapping[str, Sequence[str]] | None = None,
    tags: Mapping[str, Sequence[str]] | None = None,
    digests: Mapping[str, str] | None = None,
    cost: float | None = None,
    message: str = "the sandbox is gone",
) -> Path:
    """A job's folder, in which each task's attempts ended with a reward, or with another outcome and none."""
    for number, (name, ends) in enumerate(attempts.items()):
        for attempt, end in enumerate(ends, 1):
            trial = f"t{number:04}__{attempt}"
            record = _record(name, trial, attempt, end, message)
            record.categories = list((categories or {}).get(name, ()))
            record.task_tags = list((tags or {}).get(name, ()))
            record.task_checksum = (digests or {}).get(name, f"digest of {name}")
            record.agent_result = AgentUsage(cost_usd=cost) if cost is not None else None
            (folder / trial).mkdir(parents=True)
            (folder / trial / "result.json").write_text(record.model_dump_json())
    total = sum(map(len, attempts.values()))
    (folder / "result.json").write_text(json.dumps({"n_total_trials": total, "summary": {"pass_mark": 1.0}}))
    return folder


def _record(name: str, trial: str, attempt: int, end: float | Outcome | None, message: str) -> TrialResult:
    outcome = end if isinstance(end, Outcome) else Outcome.SCORED
    reward = None if isinstance(end, Outcome) else end
    failure = None
    if outcome is Outcome.INFRA_ERROR:
        failure = Failure(
            category=FailureCategory.INFRA_SANDBOX,
            layer=Layer.SANDBOX,
            tag="sandbox_unavailable",
            retryable=True,
            trainable=False,
            message=message,
        )
    return TrialResult(
        id=trial,
        task_name=name,
        trial_name=trial,
        trial_uri=f"file:///{trial}",
        task_id={"path": name},
        task_checksum="",
        config={"trial_name": trial, "agent": {"name": "agent", "kwargs": {"note": "x" * 1500}}},
        agent_info=AgentInfo(name="agent", version="1"),
        verifier_result=None if reward is None else VerifierResult(rewards={"reward": reward}),
        reward_valid=reward is not None,
        outcome=outcome,
        reward=reward,
        failure=failure,
        started_at=now(),
        finished_at=now(),
        attempt=attempt,
    )
