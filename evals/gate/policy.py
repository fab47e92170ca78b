"""What a gate demands. Shares and differences are fractions: 0.05 is five percentage points."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from harness.errors import UsageError


class OnInconclusive(StrEnum):
    """What an undecided gate does to the exit code."""

    WARN = "warn"
    PASS = "pass"  # noqa: S105
    FAIL = "fail"


class Metric(StrEnum):
    """What must not get worse: the share of attempts that pass, or the mean reward, a failed attempt's being 0."""

    SUCCESS = "success"
    REWARD = "reward"

    @property
    def words(self) -> str:
        """As a person says it."""
        return "success rate" if self is Metric.SUCCESS else "mean reward"


@dataclass(frozen=True, slots=True)
class Floor:
    """A category's success rate must not be below `rate`, provably; not asked of fewer than `min_tasks` tasks."""

    category: str
    rate: float
    min_tasks: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """From "coding>=0.8" or "coding>=80%:30". Raises UsageError."""
        match = re.fullmatch(r"\s*(.+?)\s*>=\s*([^:]+?)\s*(?::\s*(\d+)\s*)?", text)
        if match is None:
            raise UsageError(f"--require {text!r}: write CATEGORY>=RATE or CATEGORY>=RATE:MIN_TASKS")
        return cls(match[1], share(match[2], "--require"), int(match[3] or 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rule's parameters.

    Attributes:
        metric: what the rule and the pinned categories are about. Floors and must-pass tasks are about success.
        alpha: how often an unchanged run may be called a regression.
        min_effect: a drop below this is never one, however certain.
        margin: a drop below this is what a pass rules out. pass_if_not_worse: also pass where nothing fell at all.
        floor: the overall success rate that must not be provably missed. floors: the same for categories.
        pinned: categories that are tested for a regression of their own, together at level alpha (Holm).
        must_pass: globs of tasks that fail the gate if they passed every attempt before and fail every one now.
        max_infra: the share of attempts that may say nothing of the agent. max_missing_tasks: of tasks, likewise.
        min_tasks: shared tasks below which nothing is judged.
        max_cost_increase: the relative rise in cost per attempt that fails the gate.
        intersect: judge the tasks that both runs share, instead of refusing. any_attempts: allow different numbers
            of attempts per task.
    """

    metric: Metric = Metric.SUCCESS
    alpha: float = 0.05
    min_effect: float = 0.02
    margin: float = 0.05
    pass_if_not_worse: bool = False
    floor: float | None = None
    floors: tuple[Floor, ...] = ()
    pinned: tuple[str, ...] = ()
    must_pass: tuple[str, ...] = ()
    max_infra: float = 0.05
    max_missing_tasks: float = 0.02
    min_tasks: int = 10
    max_cost_increase: float | None = None
    on_inconclusive: OnInconclusive = OnInconclusive.WARN
    intersect: bool = False
    any_attempts: bool = False
    must_pass_tags: tuple[str, ...] = field(default=("must-pass", "tier=baseline"))

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 0.5:
            raise UsageError(f"--alpha must be above 0 and at most 0.5, not {self.alpha:g}")
        if self.margin <= 0:
            raise UsageError("--margin must be above 0: a pass rules out a drop of that size")
        if self.min_tasks < 1:
            raise UsageError("--min-tasks must be 1 or more")


def share(text: str, option: str) -> float:
    """A fraction from "0.05", "5%" or "5pp". Raises UsageError for what is not in [0, 1]."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%|pp)?\s*", text)
    value = float(match[1]) / (100 if match[2] else 1) if match else math.nan
    if not 0 <= value <= 1:
        raise UsageError(f"{option} {text!r}: write a share such as 0.05, 5% or 5pp")
    return value
