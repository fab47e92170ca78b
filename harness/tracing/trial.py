"""One finished trial's folder as a trace. Live and afterwards, this is the only way in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from harness import packed
from harness.atif.model import Trajectory
from harness.atif.reader import TrajectoryInvalid, parse_trajectory
from harness.failures import Layer, Outcome
from harness.job.summary import Finished
from harness.records import StepRecord, Timing, TrialResult
from harness.store.layout import TrialPaths
from harness.store.reader import load_result
from harness.tracing.conversation import conversation_spans, text_of, totals
from harness.tracing.job import JobFacts
from harness.tracing.marks import marks_of
from harness.tracing.spans import Kind, Mark, Span, Tokens, Trace

_MAX_TRAJECTORY = 128 << 20


def trace_of(job: JobFacts, folder: str) -> Trace:
    """The trace of the trial in the folder of that name. Raises OSError, and ValueError for what is no record."""
    paths = job.paths.trial(folder)
    result = load_result(paths.result)
    start, end = _whole(result, paths)
    children = list(_children(result, paths, start, end))
    return Trace(
        seed=job.seed_of(folder),
        task_name=result.task_name,
        spans=(_root(result, job, folder, start, end, children), *children),
        marks=tuple(
            Mark(key=key, value=found) if isinstance(found, str) else Mark(key=key, score=found)
            for key, found in marks_of(result, job.pass_mark)
        ),
    )


def _whole(result: TrialResult, paths: TrialPaths) -> tuple[datetime, datetime]:
    execution = result.agent_execution or Timing()
    start = result.started_at or execution.started_at or result.finished_at
    if start is None:
        start = datetime.fromtimestamp(paths.result.stat().st_mtime, UTC)
    start = _zoned(start)
    return start, max(start, _zoned(result.finished_at or start))


def _zoned(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _root(
    result: TrialResult, job: JobFacts, folder: str, start: datetime, end: datetime, children: list[Span]
) -> Span:
    finished = Finished.of(result)
    failure = result.failure if finished.outcome is not Outcome.SCORED else None
    first = next((span.inputs["instruction"] for span in children if "instruction" in span.inputs), None)
    facts = {
        "job": job.name,
        "job_id": job.job_id,
        "trial_name": folder,
        "task": result.task_name,
        "task_digest": result.task_checksum or None,
        "dataset": job.dataset,
        "categories": result.categories or None,
        "difficulty": result.difficulty,
        "attempt": result.attempt,
        "retry": result.retry or None,
        "agent": result.agent_info.name,
        "agent_version": result.agent_info.version,
        "model": finished.model,
        "backend": result.sandbox.backend if result.sandbox else job.backend,
        "outcome": finished.outcome.value,
        "failure_tag": result.failure.tag if result.failure else None,
        "failure_layer": result.failure.layer.value if result.failure else None,
        "policy_version": result.policy_version,
    }
    return Span(
        key="",
        parent=None,
        kind=Kind.TRIAL,
        name=result.task_name,
        start=start,
        end=end,
        inputs={"task": result.task_name, **({"instruction": first} if first else {})},
        outputs={"outcome": finished.outcome.value, "reward": result.reward},
        error=failure.tag if failure else None,
        error_text=failure.message if failure else "",
        facts={name: value for name, value in facts.items() if value is not None},
        model=finished.model,
        tokens=Tokens(
            input=finished.tokens_in,
            cached=finished.tokens_cached,
            output=finished.tokens_out,
            cost_usd=finished.cost,
        ),
    )


def _children(result: TrialResult, paths: TrialPaths, start: datetime, end: datetime) -> Iterator[Span]:
    for name, timing in (("environment", result.environment_setup), ("agent_setup", result.agent_setup)):
        if timing and (times := _times(timing, end)):
            yield Span(key=name, parent="", kind=Kind.SETUP, name=name, start=times[0], end=times[1])
    for step in result.step_results or ():
        yield from _acted(result, paths, step, step.step_name, start, end)
    if not result.step_results:
        yield from _acted(result, paths, result, None, start, end)


def _acted(
    result: TrialResult,
    paths: TrialPaths,
    record: TrialResult | StepRecord,
    step: str | None,
    start: datetime,
    end: datetime,
) -> Iterator[Span]:
    """What the agent did, and what the verifier found, in a trial or in one of its steps."""
    prefix = f"steps/{step}/" if step else ""
    trajectory, problem = _trajectory(paths, step)
    times = _times(record.agent_execution, end)
    if times or trajectory:
        began, ended = times or (start, end)
        key = f"{prefix}agent"
        failed = record.exception_info if result.failure and result.failure.layer is Layer.AGENT else None
        instruction = _instruction(trajectory)
        yield Span(
            key=key,
            parent="",
            kind=Kind.AGENT,
            name=result.agent_info.name,
            start=began,
            end=ended,
            inputs={"instruction": instruction} if instruction else {},
            outputs={"output": answer} if (answer := _last_answer(trajectory)) else {},
            error=failed.exception_type if failed else None,
            error_text=failed.exception_message if failed else "",
            facts={**({"step": step} if step else {}), **({"trajectory": problem} if problem else {})},
            model=trajectory.agent.model_name if trajectory else None,
            tokens=totals(trajectory) if trajectory else None,
        )
        if trajectory:
            yield from conversation_spans(trajectory, key, began, ended)
    if times := _times(record.verifier, end):
        yield _verification(record, prefix, times)


def _verification(record: TrialResult | StepRecord, prefix: str, times: tuple[datetime, datetime]) -> Span:
    found, rewards = record.verification, record.verifier_result.rewards if record.verifier_result else None
    facts: dict[str, Any] = {}
    if found:
        facts = {"exit_code": found.exit_code, "runs": found.runs, "source": found.source, "headline": found.headline}
    timed_out = found is not None and found.timed_out
    return Span(
        key=f"{prefix}verifier",
        parent="",
        kind=Kind.VERIFICATION,
        name="verifier",
        start=times[0],
        end=times[1],
        outputs={"rewards": rewards, **({"output": found.output_tail} if found and found.output_tail else {})},
        error="verifier_timeout" if timed_out else None if rewards is not None else "no_reward",
        facts={name: value for name, value in facts.items() if value is not None},
    )


def _times(timing: Timing | None, end: datetime) -> tuple[datetime, datetime] | None:
    if timing is None or timing.started_at is None:
        return None
    began = _zoned(timing.started_at)
    return began, max(began, _zoned(timing.finished_at or end))


def _trajectory(paths: TrialPaths, step: str | None) -> tuple[Trajectory | None, str | None]:
    """The trajectory, or why there is none to show."""
    path = paths.trajectory(step)
    found = packed.find(path)
    if found is None:
        return None, None
    try:
        if not found.resolve().is_relative_to(paths.root.resolve()):
            return None, "not a file of the record"
        return parse_trajectory(packed.read_bytes(path, max_bytes=_MAX_TRAJECTORY)), None
    except (OSError, ValueError, TrajectoryInvalid):
        return None, "cannot be read, or too large"


def _instruction(trajectory: Trajectory | None) -> str | None:
    steps = trajectory.steps if trajectory else ()
    return next((text_of(step.message) for step in steps if step.source == "user"), None)


def _last_answer(trajectory: Trajectory | None) -> str | None:
    steps = reversed(trajectory.steps) if trajectory else ()
    return next((text for step in steps if step.source == "agent" and (text := text_of(step.message))), None)
