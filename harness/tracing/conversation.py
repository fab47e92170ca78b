"""A trajectory as spans: model calls and tool calls in order, a sub-agent below the call that started it.

A model call's inputs are the messages that are new since the call before it, so that a trace is as long as the
trajectory and not its square.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from harness.atif.model import Content, Metrics, ObservationResult, Step, ToolCall, Trajectory
from harness.atif.reader import usage_of
from harness.strict_json import dumps
from harness.tracing.spans import Kind, Span, Tokens

_MAX_DEPTH = 8


def conversation_spans(trajectory: Trajectory, parent: str, start: datetime, end: datetime) -> Iterator[Span]:
    """The spans of a trajectory below the span `parent`, which lasts from `start` to `end`."""
    yield from _conversation(trajectory, trajectory, parent, start, end, _MAX_DEPTH)


def totals(trajectory: Trajectory) -> Tokens:
    """What the trajectory's own model calls cost."""
    usage = usage_of(trajectory)
    return Tokens(
        input=usage.prompt_tokens, cached=usage.cached_tokens, output=usage.completion_tokens, cost_usd=usage.cost_usd
    )


def _conversation(
    trajectory: Trajectory, document: Trajectory, parent: str, start: datetime, end: datetime, depth: int
) -> Iterator[Span]:
    messages: list[dict[str, Any]] = []
    earlier = 0
    clock = start
    steps = trajectory.steps
    for position, step in enumerate(steps):
        at = moment(step.timestamp) or clock
        following = next((m for later in steps[position + 1 :] if (m := moment(later.timestamp))), end)
        if step.source != "agent":
            messages.append({"role": step.source, "content": text_of(step.message)})
        elif not step.is_copied_context:
            key = f"{parent}/{step.step_id}"
            answer = _answer(step)
            if step.llm_call_count != 0:
                yield _model_call(step, trajectory, key, parent, clock, at, messages, answer, earlier)
                earlier, messages = earlier + len(messages) + 1, []
            yield from _tool_calls(step, document, parent, key, at, max(at, following), depth)
        for result in step.observation.results if step.observation else ():
            messages.append({"role": "tool", "tool_call_id": result.source_call_id, "content": text_of(result.content)})
        clock = max(clock, at)


def _model_call(
    step: Step,
    trajectory: Trajectory,
    key: str,
    parent: str,
    before: datetime,
    at: datetime,
    messages: list[dict[str, Any]],
    answer: dict[str, Any],
    earlier: int,
) -> Span:
    metrics = step.metrics or Metrics()
    extra = metrics.extra or {}
    seconds = seconds_of(extra)
    model = step.model_name or trajectory.agent.model_name
    return Span(
        key=key,
        parent=parent,
        kind=Kind.MODEL,
        name=model or "model",
        start=at - timedelta(seconds=seconds) if seconds is not None else min(before, at),
        end=at,
        inputs={"messages": messages},
        outputs={"messages": [answer]},
        facts=_known(
            step_id=step.step_id,
            earlier_messages=earlier or None,
            finish_reason=extra.get("finish_reason"),
            sampling=extra.get("sampling") or None,
            retries=extra.get("retries") or None,
            policy_version=extra.get("policy_version"),
            timing=None if seconds is not None else "estimated",
        ),
        model=model,
        tokens=Tokens(
            input=metrics.prompt_tokens,
            cached=metrics.cached_tokens,
            output=metrics.completion_tokens,
            cost_usd=metrics.cost_usd,
        ),
    )


def _tool_calls(
    step: Step, document: Trajectory, parent: str, key: str, at: datetime, following: datetime, depth: int
) -> Iterator[Span]:
    found = step.observation.results if step.observation else []
    results = {result.source_call_id: result for result in found if result.source_call_id is not None}
    for number, call in enumerate(step.tool_calls or (), 1):
        result = results.get(call.tool_call_id)
        span = _tool_call(call, result, f"{key}/call-{number}", parent, at, following)
        yield span
        for ref in (result.subagent_trajectory_ref if result else None) or ():
            inner = _embedded(document, ref.trajectory_id)
            if inner is not None and depth:
                below = f"{span.key}/agent"
                yield Span(
                    key=below,
                    parent=span.key,
                    kind=Kind.AGENT,
                    name=inner.agent.name,
                    start=span.start,
                    end=span.end,
                    facts=_known(subagent=inner.trajectory_id, version=inner.agent.version, steps=len(inner.steps)),
                    model=inner.agent.model_name,
                    tokens=totals(inner),
                )
                yield from _conversation(inner, inner, below, span.start, span.end, depth - 1)


def _tool_call(
    call: ToolCall, result: ObservationResult | None, key: str, parent: str, at: datetime, following: datetime
) -> Span:
    extra = (result.extra if result else None) or {}
    seconds = seconds_of(extra)
    timed_out = extra.get("timed_out") is True
    failed = bool(extra.get("error"))
    fault = (call.extra or {}).get("fault")
    error = "timeout" if timed_out else "invalid_call" if fault else "tool_error" if failed else None
    return Span(
        key=key,
        parent=parent,
        kind=Kind.TOOL,
        name=call.function_name,
        start=at,
        end=at + timedelta(seconds=seconds) if seconds is not None else following,
        inputs=dict(call.arguments),
        outputs={"output": text_of(result.content)} if result else {},
        error=error,
        error_text=str(extra["error"]) if failed else "",
        facts=_known(
            call_id=call.tool_call_id,
            exit_code=extra.get("exit_code"),
            timed_out=timed_out or None,
            truncated=extra.get("truncated") or None,
            oom=extra.get("oom"),
            timing=None if seconds is not None else "estimated",
        ),
    )


def _answer(step: Step) -> dict[str, Any]:
    answer: dict[str, Any] = {"role": "assistant", "content": text_of(step.message)}
    if step.reasoning_content:
        answer["reasoning_content"] = step.reasoning_content
    if step.tool_calls:
        answer["tool_calls"] = [
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {"name": call.function_name, "arguments": dumps(call.arguments)},
            }
            for call in step.tool_calls
        ]
    return answer


def _embedded(document: Trajectory, trajectory_id: str | None) -> Trajectory | None:
    inner = document.subagent_trajectories or ()
    return next((each for each in inner if trajectory_id and each.trajectory_id == trajectory_id), None)


def text_of(content: Content | None) -> str:
    """A message as text; what is no text becomes a word in brackets."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text if part.text is not None else f"[{part.type}]" for part in content)


def moment(timestamp: str | None) -> datetime | None:
    """A step's time; one without a zone is UTC."""
    if timestamp is None:
        return None
    at = datetime.fromisoformat(timestamp)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def seconds_of(extra: dict[str, Any]) -> float | None:
    """How long it took, where that was recorded."""
    value = extra.get("duration_sec")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e7 else None


def _known(**facts: Any) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}
