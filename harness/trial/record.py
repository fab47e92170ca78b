"""Turning what happened in a trial into its record."""

from __future__ import annotations

import traceback
import uuid
from collections.abc import Callable
from typing import Any

from harness.failures import AgentStop, FailureCategory, Verdict
from harness.records import (
    AgentInfo,
    Evidence,
    ExceptionInfo,
    Failure,
    ModelInfo,
    TrialResult,
    now,
)
from harness.strict_json import whole
from harness.task.model import Task
from harness.trial.spec import TrialContext, TrialSpec

_STOP_EXCEPTIONS = {
    AgentStop.TIMEOUT: "AgentTimeoutError",
    AgentStop.CONTEXT_OVERFLOW: "ContextWindowExceededError",
    AgentStop.TOKEN_BUDGET: "OutputTokenExceededError",
    AgentStop.REFUSAL: "AgentSafetyRefusalError",
    AgentStop.EXITED: "NonZeroAgentExitCodeError",
}
"""Harbor's names for the ends of an agent whose reward still counts: its readers decide by name."""


def blank_result(spec: TrialSpec, context: TrialContext) -> TrialResult:
    """The record at the start of an execution: everything that is known before anything ran."""
    agent, task = context.agent, spec.task
    full = task if isinstance(task, Task) else None
    model = None
    if agent.model_name:
        provider, _, name = agent.model_name.rpartition("/")
        model = ModelInfo(name=name, provider=provider or None)
    return TrialResult(
        id=str(uuid.uuid4()),
        task_name=task.name,
        trial_name=spec.name,
        trial_uri=f"{context.root_uri}/{spec.name}",
        task_id={"path": whole(str(task.path))},
        source=task.source,
        task_checksum=spec.digest.removeprefix("sha256:"),
        config=trial_config(spec, context),
        agent_info=AgentInfo(name=agent.name, version=agent.version, model_info=model),
        started_at=now(),
        categories=list(full.categories) if full else [],
        difficulty=full.difficulty if full else None,
        task_tags=list(full.tags) if full else [],
        attempt=spec.attempt,
        retry=spec.retry,
        seed=spec.seed(context.seed),
        group_id=spec.group_id if full else None,
        policy_version=context.policy_version,
    )


def trial_config(spec: TrialSpec, context: TrialContext) -> dict[str, Any]:
    """What was asked of this execution, in the fields that Harbor's reader expects, and in ours."""
    name = context.provider.name
    known = name in _HARBOR_ENVIRONMENTS
    return {
        "schema_version": 1,
        "task": {"path": whole(str(spec.task.path)), "source": spec.task.source},
        "trial_name": spec.name,
        "trials_dir": str(context.paths.root),
        "timeout_multiplier": context.timeout_multiplier,
        "agent": {
            "name": context.agent.name,
            "model_name": context.agent.model_name,
            "override_timeout_sec": context.agent_timeout,
            "kwargs": dict(context.agent_config),
        },
        "environment": {
            "type": name if known else None,
            "import_path": None if known else f"backends.{name}",
        },
        "verifier": {},
        "job_id": context.job_id,
        "attempt": spec.attempt,
        "retry": spec.retry,
        "pass_mark": context.pass_mark,
    }


_HARBOR_ENVIRONMENTS = {"docker", "daytona", "modal", "e2b"}


def describe_error(error: BaseException, redact: Callable[[str], str]) -> ExceptionInfo:
    """An exception as the record keeps it."""
    return ExceptionInfo(
        exception_type=type(error).__name__,
        exception_message=redact(str(error)),
        exception_traceback=redact("".join(traceback.format_exception(error))),
        occurred_at=now(),
    )


def describe_stop(stop: AgentStop, detail: str | None) -> ExceptionInfo | None:
    """An agent's own early end, under the name by which Harbor's readers keep its reward."""
    if stop is AgentStop.FINISHED:
        return None
    return ExceptionInfo(
        exception_type=_STOP_EXCEPTIONS.get(stop, "NonZeroAgentExitCodeError"),
        exception_message=detail or f"the agent ended by {stop.value}",
        occurred_at=now(),
    )


def failure_of(verdict: Verdict, message: str, evidence: list[Evidence] | None = None) -> Failure:
    """A row of the failure table with the facts of this case."""
    return Failure(
        category=verdict.category,
        layer=verdict.layer,
        tag=verdict.tag,
        retryable=verdict.retry,
        trainable=verdict.trainable and verdict.category is FailureCategory.CAPABILITY,
        message=message[:2000],
        evidence=evidence or [],
    )
