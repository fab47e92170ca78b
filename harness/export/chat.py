"""A trajectory as chat messages, in OpenAI's form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.atif.model import Content, ObservationResult, Step, Trajectory
from harness.atif.reader import load_trajectory
from harness.errors import UsageError
from harness.records import TrialResult
from harness.store.layout import TrialPaths
from harness.store.rollout.call import MAIN

PLACEHOLDER = "[{kind} left out]"


class HasMedia(UsageError):
    """A text-only form of this trajectory would lose an image or a sound."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message, and whether the model wrote it in this very session."""

    message: dict[str, Any]
    sampled: bool = False


def trajectories(paths: TrialPaths, result: TrialResult) -> Iterator[tuple[str, Path, Trajectory]]:
    """The trajectories of an attempt, of all its steps and embedded sub-agents, by session.

    Raises UsageError for one that cannot be read; one that is not there is left out.
    """
    for step in [each.step_name for each in result.step_results] if result.step_results else [None]:
        path = paths.trajectory(step)
        if paths.has_trajectory(step):
            yield from _with_subagents(MAIN if step is None else f"{step}:{MAIN}", path, load_trajectory(path))


def _with_subagents(session: str, path: Path, trajectory: Trajectory) -> Iterator[tuple[str, Path, Trajectory]]:
    yield session, path, trajectory
    for sub in trajectory.subagent_trajectories or ():
        yield from _with_subagents(sub.trajectory_id or "sub-agent", path, sub)


def messages_of(trajectory: Trajectory, *, drop_media: bool = False) -> list[Said]:
    """The messages, in order. Raises HasMedia, naming the step, unless media may give way to a placeholder."""
    said: list[Said] = []
    for step in trajectory.steps:
        text = _text(step.message, step, drop_media)
        if step.source == "agent":
            said.append(Said(_assistant(step, text), sampled=not step.is_copied_context and step.llm_call_count != 0))
        else:
            said.append(Said({"role": step.source, "content": text}))
        for result in step.observation.results if step.observation else ():
            said.append(Said(_result(result, _text(result.content or "", step, drop_media))))
    return said


def _assistant(step: Step, text: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if step.reasoning_content:
        message["reasoning_content"] = step.reasoning_content
    if step.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {
                    "name": call.function_name,
                    "arguments": json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":")),
                },
            }
            for call in step.tool_calls
        ]
    return message


def _result(result: ObservationResult, text: str) -> dict[str, Any]:
    if result.source_call_id is None:
        return {"role": "user", "content": text}
    return {"role": "tool", "tool_call_id": result.source_call_id, "content": text}


def _text(content: Content, step: Step, drop_media: bool) -> str:
    if isinstance(content, str):
        return content
    parts = []
    for part in content:
        if part.type != "text" and not drop_media:
            raise HasMedia(
                f"step {step.step_id} holds an {part.type}, which text would lose; "
                "--drop-media leaves a placeholder instead"
            )
        parts.append(part.text or "" if part.type == "text" else PLACEHOLDER.format(kind=part.type))
    return "\n".join(parts)
