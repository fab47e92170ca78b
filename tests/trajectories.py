"""Trajectories made of calls, for tests of what reads them: one builder per noun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.atif.model import Trajectory

Pair = tuple[dict[str, Any], dict[str, Any]]
"""A call and its result."""


def call(name: str, arguments: Mapping[str, Any], result: str = "", *, fault: str | None = None, **facts: Any) -> Pair:
    """One call, what it returned, and the structured facts of the result; none of them is told as `told=False`."""
    extra = {"error": None, **facts} if facts.pop("told", True) else None
    asked = {"function_name": name, "arguments": dict(arguments), "extra": {"fault": fault} if fault else None}
    return asked, {"content": result, "extra": extra}


def bash(command: str, result: str = "", exit_code: int | None = 0, **facts: Any) -> Pair:
    """One shell command."""
    return call("bash", {"command": command}, result, exit_code=exit_code, **facts)


def edit(path: str, old: str = "a", new: str = "b", **facts: Any) -> Pair:
    """One edit of a file."""
    return call("edit", {"path": path, "old": old, "new": new}, f"replaced 1 in {path}", **facts)


def turn(*pairs: Pair, prompt: int | None = None, model_sec: float | None = None, **fields: Any) -> dict[str, Any]:
    """A step of the agent with these calls."""
    metrics: dict[str, Any] | None = None
    if prompt is not None or model_sec is not None:
        metrics = {"prompt_tokens": prompt, "extra": {"duration_sec": model_sec}}
    calls = [{**asked, "tool_call_id": f"c{n}"} for n, (asked, _) in enumerate(pairs)]
    results = [{**result, "source_call_id": f"c{n}"} for n, (_, result) in enumerate(pairs)]
    return {
        "source": "agent",
        "message": "",
        "tool_calls": calls or None,
        "observation": {"results": results} if results else None,
        "metrics": metrics,
        **fields,
    }


def trajectory(
    *steps: dict[str, Any], subagents: Sequence[Trajectory] = (), trajectory_id: str | None = None
) -> Trajectory:
    """A trajectory of these steps."""
    return Trajectory.model_validate(
        {
            "schema_version": "ATIF-v1.7",
            "trajectory_id": trajectory_id,
            "agent": {"name": "agent", "version": "1"},
            "steps": [{"step_id": n, **step} for n, step in enumerate(steps, 1)],
            "subagent_trajectories": list(subagents) or None,
        }
    )


def one_by_one(*pairs: Pair) -> Trajectory:
    """A trajectory with one call per turn."""
    return trajectory(*(turn(pair) for pair in pairs))
