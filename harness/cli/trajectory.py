"""A trajectory in the terminal, with the trajectories of sub-agents below the calls that started them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.text import plain
from harness.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from harness.atif.model import Step, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which steps to show: one by its number, those that match, the last ones; and whether texts are shortened."""

    step: int | None = None
    tail: int | None = None
    grep: str | None = None
    full: bool = False


def show_trajectory(path: Path, console: Console, selection: Selection) -> None:
    """Print a document's steps. Raises UsageError where it has no such step, or is no trajectory."""
    from harness.atif.reader import load_trajectory

    trajectory = load_trajectory(path)
    steps = [step for step in trajectory.steps if selection.step is not None or not step.is_copied_context]
    if copied := len(trajectory.steps) - len(steps):
        console.print(f"({copied} steps of the conversation so far are not shown again)", style="dim")
    if selection.step is not None:
        steps = [each for each in steps if each.step_id == selection.step]
        if not steps:
            raise UsageError(f"{path} has no step {selection.step}")
    if selection.grep is not None:
        pattern = re.compile(selection.grep)
        steps = [each for each in steps if pattern.search(each.model_dump_json())]
    if selection.tail is not None:
        steps = steps[-selection.tail :]
    limit = 10**9 if selection.full else 1500
    _print_steps(steps, _embedded(trajectory), console, limit, "")


def _embedded(trajectory: Trajectory) -> dict[str | None, Trajectory]:
    return {each.trajectory_id: each for each in trajectory.subagent_trajectories or ()}


def _print_steps(
    steps: list[Step], embedded: Mapping[str | None, Trajectory], console: Console, limit: int, indent: str
) -> None:
    for step in steps:
        _print_step(step, embedded, console, limit, indent)


def _print_step(
    step: Step, embedded: Mapping[str | None, Trajectory], console: Console, limit: int, indent: str
) -> None:
    def show_text(text: str, mark: str, style: str | None = None) -> None:
        shown = text if len(text) <= limit else text[:limit] + f" ... ({len(text) - limit} more characters; --full)"
        for line in shown.splitlines():
            console.print(indent + mark + plain(line), markup=False, style=style, soft_wrap=True)

    console.print(f"{indent}[{step.step_id}] {step.source}", markup=False, style="bold")
    if step.reasoning_content:
        show_text(step.reasoning_content, "  ~ ", "dim")
    show_text(_text(step.message), "  ")
    for call in step.tool_calls or ():
        show_text(f"{call.function_name} {json.dumps(call.arguments, ensure_ascii=False)}", "  > ", "cyan")
    for result in step.observation.results if step.observation else ():
        for ref in result.subagent_trajectory_ref or ():
            inner = embedded.get(ref.trajectory_id)
            if inner is not None:
                name = (inner.extra or {}).get("description") or inner.trajectory_id
                show_text(f"sub-agent: {name}", "  | ", "bold")
                told = [step for step in inner.steps if step.source != "system" or step.extra]  # not its system prompt
                _print_steps(told, _embedded(inner), console, limit, f"{indent}  | ")
        show_text(_text(result.content), "  < ")


def _text(content: object) -> str:
    """A message as text; parts that are not text are named."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else [content]
    return "\n".join(str(getattr(part, "text", None) or f"[{getattr(part, 'type', 'part')}]") for part in parts)
