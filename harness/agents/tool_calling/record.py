"""What a run leaves on record: the opening, and every answer with what is known about how it was sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.agents.tool_calling.calls import Call
from harness.atif.writer import TrajectoryWriter
from harness.llm.protocol import Message, Reply, ToolSchema
from harness.llm.wire import tool_json
from harness.store.rollout import RolloutWriter
from harness.store.rollout.answer import record_answer


def record_opening(trajectory: TrajectoryWriter, schemas: Sequence[ToolSchema], head: Sequence[Message]) -> None:
    """The tools, and the messages that the conversation starts with."""
    if trajectory.steps == 0:
        trajectory.describe_tools([tool_json(tool) for tool in schemas])
    for message in head:
        (trajectory.system if message.role == "system" else trajectory.user)(message.content)


def record_turn(
    trajectory: TrajectoryWriter,
    rollout: RolloutWriter,
    reply: Reply,
    calls: Sequence[Call],
    *,
    sampling: Mapping[str, Any],
    extra: Mapping[str, Any],
) -> None:
    """One answer, before its calls run. A step is labelled truncated if any of it was cut."""
    truncated = reply.truncated or any(call.fault == "truncated" for call in calls)
    record_answer(
        trajectory,
        rollout,
        reply,
        [call.for_record() for call in calls],
        sampling=sampling,
        extra={**extra, "truncated": True} if truncated else extra,
    )
