"""Reading ATIF documents, and telling what in them contradicts itself."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from harness import packed, strict_json
from harness.atif.model import Trajectory
from harness.atif.usage import Usage
from harness.errors import UsageError


class TrajectoryInvalid(UsageError):
    """The document is not ATIF, or not of a version that is known here."""


def load_trajectory(path: Path) -> Trajectory:
    """The trajectory in a file, compressed or not. Raises TrajectoryInvalid, and OSError when there is no such file."""
    try:
        return parse_trajectory(packed.read_bytes(path), where=str(path))
    except ValueError as error:
        raise TrajectoryInvalid(f"{path}: {error}") from error


def parse_trajectory(text: str | bytes, *, where: str = "trajectory") -> Trajectory:
    """The trajectory in a document. Raises TrajectoryInvalid with one line that says what is wrong and where."""
    return _parse_whole(text) or _parse_strictly(text, where)


def _parse_whole(text: str | bytes) -> Trajectory | None:
    """Text to values in one step, which is twice as fast; None for what needs the strict reader's judgement."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if b"NaN" in raw or b"Infinity" in raw:
        return None
    try:
        return Trajectory.model_validate_json(raw)
    except ValueError:
        return None


def _parse_strictly(text: str | bytes, where: str) -> Trajectory:
    try:
        return Trajectory.model_validate(strict_json.loads(text))
    except ValidationError as error:
        # Of the alternatives of a union, the one that was followed furthest is what was meant.
        worst = max(error.errors(include_url=False, include_context=False), key=lambda each: len(each["loc"]))
        place = ".".join(str(part) for part in worst["loc"])
        message = worst["msg"].removeprefix("Value error, ")
        raise TrajectoryInvalid(f"{where}: {place + ': ' if place else ''}{message}") from error
    except ValueError as error:
        raise TrajectoryInvalid(f"{where}: not strict JSON: {error}") from error


def usage_of(trajectory: Trajectory) -> Usage:
    """The totals, recomputed from the steps; the document's own totals are not trusted."""
    usage = Usage()
    for step in trajectory.steps:
        usage = usage.plus(step)
    return usage


def findings(trajectory: Trajectory) -> list[str]:
    """Where `final_metrics` contradicts the steps, one line each. A stated 0 for what no step tells is none."""
    stated = trajectory.final_metrics
    if stated is None:
        return []
    usage = usage_of(trajectory)
    pairs: list[tuple[str, float | None, float | None]] = [
        ("total_steps", stated.total_steps, len(trajectory.steps)),
        ("total_prompt_tokens", stated.total_prompt_tokens, usage.prompt_tokens),
        ("total_completion_tokens", stated.total_completion_tokens, usage.completion_tokens),
        ("total_cached_tokens", stated.total_cached_tokens, usage.cached_tokens),
        ("total_cost_usd", stated.total_cost_usd, usage.cost_usd),
    ]
    return [
        f"final_metrics.{name} is {said}, the steps give {found}"
        for name, said, found in pairs
        if said is not None and abs(said - (found or 0)) > 1e-9 * abs(said)
    ]
