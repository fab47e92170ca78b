"""A job on disk as real runs leave it: a conversation with a sub-agent, lost infrastructure, a failed agent."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.atif.model import Metrics, ToolCall
from harness.atif.writer import TrajectoryWriter
from harness.failures import FailureCategory, Layer, Outcome
from harness.job.config import JobConfig, JobLock, LockedTask, config_document
from harness.records import (
    AgentInfo,
    AgentUsage,
    Behaviour,
    ExceptionInfo,
    Failure,
    ModelInfo,
    SandboxRecord,
    Timing,
    TrialResult,
    Verification,
    VerifierResult,
)
from harness.store.files import to_json, write_atomic
from harness.store.layout import JobPaths

BEGAN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
JOB_ID = "0b8a3c52-1f6e-4c55-9a6b-2f3f5f1d9d10"
SECRET = "hunter2-hunter2-0"
"""Stands in a tool's output; a redactor that knows the value takes it out."""


def traced_job(folder: Path, name: str = "job") -> Path:
    """The job: two tasks, two attempts of each."""
    root = folder / name
    root.mkdir(parents=True)
    config = JobConfig(dataset="acme/chores", agent="coder", n_attempts=2)
    lock = JobLock(
        created_at=BEGAN,
        job_id=JOB_ID,
        harness_version="0.1.0",
        agent={"name": "coder"},
        model_name="glm-5",
        backend="docker",
        seed=0,
        pass_mark=1.0,
        tasks=tuple(LockedTask(name=f"acme/{each}", path=f"/nowhere/{each}", digest=f"sha256:{each}") for each in "ab"),
    )
    write_atomic(root / "config.json", to_json(config_document(config, name, str(folder))))
    write_atomic(root / "lock.json", lock.model_dump_json())
    _write(root, "a__1", _scored("a", 1, {"reward": 1.0, "style": 0.5}, Behaviour(steps=7, tool_calls=4, loops=1)))
    _converse(JobPaths(root).trial("a__1").trajectory())
    _write(root, "a__2", _failed("a", 2, Outcome.INFRA_ERROR, FailureCategory.INFRA_SANDBOX, "sandbox_unavailable"))
    _write(root, "b__1", _failed("b", 1, Outcome.AGENT_FAILED, FailureCategory.CAPABILITY, "agent_timeout"))
    _write(root, "b__2", _scored("b", 2, {"reward": 0.5}, Behaviour(steps=2)))
    return root


def _write(root: Path, folder: str, result: TrialResult) -> None:
    (root / folder / "agent").mkdir(parents=True)
    (root / folder / "result.json").write_text(result.model_dump_json())


def at(seconds: float) -> datetime:
    """So long after the trial's start."""
    return BEGAN + timedelta(seconds=seconds)


def _record(task: str, attempt: int) -> TrialResult:
    return TrialResult(
        id=f"{task}{attempt}",
        task_name=f"acme/{task}",
        trial_name=f"{task}__{attempt}",
        trial_uri="file:///nowhere",
        task_id={"path": task},
        task_checksum=f"sha256:{task}",
        config={},
        agent_info=AgentInfo(name="coder", version="2", model_info=ModelInfo(name="glm-5")),
        started_at=at(0),
        finished_at=at(60),
        environment_setup=Timing(started_at=at(0), finished_at=at(5)),
        attempt=attempt,
        categories=["coding"],
        sandbox=SandboxRecord(backend="docker", isolation="container", id="c1"),
    )


def _scored(task: str, attempt: int, rewards: dict[str, float], behaviour: Behaviour) -> TrialResult:
    result = _record(task, attempt)
    result.agent_execution = Timing(started_at=at(5), finished_at=at(50))
    result.verifier = Timing(started_at=at(50), finished_at=at(58))
    result.agent_result = AgentUsage(n_input_tokens=300, n_cache_tokens=100, n_output_tokens=60, cost_usd=0.25)
    result.verifier_result = VerifierResult(rewards=rewards)
    result.verification = Verification(source="reward.json", headline="reward", exit_code=0, output_tail="2 passed")
    result.reward_valid, result.outcome, result.reward = True, Outcome.SCORED, rewards["reward"]
    result.behaviour = behaviour
    return result


def _failed(task: str, attempt: int, outcome: Outcome, category: FailureCategory, tag: str) -> TrialResult:
    result = _record(task, attempt)
    agent = outcome is Outcome.AGENT_FAILED
    if agent:
        result.agent_execution = Timing(started_at=at(5), finished_at=at(60))
    result.outcome = outcome
    result.exception_info = ExceptionInfo(exception_type="Ended", exception_message="it ended", occurred_at=at(60))
    result.failure = Failure(
        category=category,
        layer=Layer.AGENT if agent else Layer.SANDBOX,
        tag=tag,
        retryable=not agent,
        trainable=agent,
        message=f"it ended with {SECRET}",
    )
    return result


def _clock(*seconds: float) -> Callable[[], datetime]:
    times = itertools.chain(map(at, seconds), itertools.repeat(at(seconds[-1])))
    return lambda: next(times)


def _call(id_: str, name: str, **arguments: str) -> ToolCall:
    return ToolCall(tool_call_id=id_, function_name=name, arguments=arguments)


def _metrics(prompt: int, completion: int, seconds: float, **more: int | float) -> Metrics:
    extra = {"finish_reason": "stop", "sampling": {"temperature": 0.5}, "duration_sec": seconds}
    return Metrics(prompt_tokens=prompt, completion_tokens=completion, extra=extra, **more)


def _converse(path: Path) -> None:
    """Steps at 6, 10, 20 and 40 s: two parallel commands, a sub-agent that acts once, an answer."""
    writer = TrajectoryWriter(
        path,
        session_id="s",
        agent_name="coder",
        agent_version="2",
        model_name="glm-5",
        now=_clock(6, 10, 20, 22, 24, 40),
    )
    writer.user("Tidy up.")
    writer.agent(
        "Looking.",
        reasoning="Two at once.",
        tool_calls=[_call("c1", "bash", command="ls"), _call("c2", "bash", command="sleep 99")],
        metrics=_metrics(100, 20, 3.0, cached_tokens=40, cost_usd=0.1),
    )
    writer.result("c1", f"notes.txt {SECRET}", extra={"exit_code": 0, "duration_sec": 0.5, "error": None})
    writer.result("c2", "", extra={"exit_code": None, "timed_out": True, "duration_sec": 9.0, "error": "timed out"})
    writer.agent("", tool_calls=[_call("c3", "task", prompt="Count them.")], metrics=_metrics(150, 10, 1.0))
    inner = writer.subagent("c3", description="Count them.")
    inner.user("Count them.")
    inner.agent("", tool_calls=[_call("i1", "bash", command="wc")], metrics=_metrics(30, 5, 1.5))
    inner.result("i1", "1", extra={"exit_code": 0, "duration_sec": 0.25, "error": None})
    inner.close()
    writer.result("c3", "One.", extra={"exit_code": None, "duration_sec": 15.0, "error": None})
    writer.agent("Done.", metrics=_metrics(50, 30, 2.0))
    writer.close()
