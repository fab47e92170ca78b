"""What a run leaves in its trajectory: the opening, and every answer with what is known about how it was sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from harness.agents.tool_calling.calls import Call
from harness.atif.model import Metrics
from harness.atif.writer import TrajectoryWriter
from harness.llm.protocol import Message, Reply, ToolSchema
from harness.llm.wire import tool_json

N = TypeVar("N", int, float)


def record_opening(trajectory: TrajectoryWriter, schemas: Sequence[ToolSchema], head: Sequence[Message]) -> None:
    """The tools, and the messages that the conversation starts with."""
    if trajectory.steps == 0:
        trajectory.describe_tools([tool_json(tool) for tool in schemas])
    for message in head:
        (trajectory.system if message.role == "system" else trajectory.user)(message.content)


def record_answer(
    trajectory: TrajectoryWriter,
    reply: Reply,
    calls: Sequence[Call],
    *,
    sampling: Mapping[str, Any],
    extra: Mapping[str, Any],
) -> None:
    """One answer, before its calls run. A step is labelled truncated if any of it was cut."""
    truncated = reply.truncated or any(call.fault == "truncated" for call in calls)
    trajectory.agent(
        reply.content,
        reasoning=reply.reasoning,
        tool_calls=[call.for_record() for call in calls],
        metrics=Metrics(
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            cached_tokens=reply.cached_tokens,
            cost_usd=reply.cost_usd,
            prompt_token_ids=_list(reply.prompt_token_ids),
            completion_token_ids=_list(reply.completion_token_ids),
            logprobs=_list(reply.logprobs),
            extra={
                "finish_reason": reply.finish_reason,
                "sampling": dict(sampling),
                "retries": reply.retries,
                "duration_sec": round(reply.duration_sec, 6),
            },
        ),
        model_name=reply.model,
        extra={**extra, "truncated": True} if truncated else extra,
    )


def _list(values: Sequence[N] | None) -> list[N] | None:
    return None if values is None else list(values)
