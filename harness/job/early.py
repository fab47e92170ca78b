"""Ending a job before all of it ran, because what was asked is known: the protocol of a stop rule, and who feeds it.

Two things would bias the answer and cannot happen here. Tasks run in a random order that the job's seed fixes, and the
rule is told of them in exactly that order, each once all of its attempts are over: tasks that happen to end sooner are
not heard sooner. An attempt that says nothing of the agent is told as missing; what that means is the rule's to say.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from harness.errors import UsageError
from harness.job.summary import JobSummary
from harness.task.model import BrokenTask, Task
from harness.trial.spec import TrialSpec

ENTRY_POINT_GROUP = "harness.stop_rules"
"""Entry points of this group are functions (threshold, alpha) -> StopRule; the one called `success_rate` is used."""

_RULE = "success_rate"


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """One task whose attempts are over: how many passed, of those that say something of the agent, of all."""

    passed: int
    counted: int
    total: int


class Decision(BaseModel):
    """What a rule decided, and on what grounds; kept in the job's `result.json`.

    Attributes:
        above: the success rate is at or above `threshold`; otherwise it is below.
        e_value: the evidence against the opposite, at least 1/alpha.
        tasks: how many the rule had heard of.
    """

    model_config = ConfigDict(frozen=True)

    rule: str
    above: bool
    threshold: float = Field(gt=0, lt=1)
    alpha: float = Field(gt=0, lt=1)
    e_value: float
    tasks: int

    def __str__(self) -> str:
        side = "at or above" if self.above else "below"
        return (
            f"the success rate is {side} {self.threshold:.1%}: e-value {self.e_value:.3g} after {self.tasks} tasks, "
            f"needed was {1 / self.alpha:.3g} (wrong at most {self.alpha:.1%} of the time)"
        )


class StopRule(Protocol):
    """Hears of one task after the other, and says when enough is known. It may be asked at any moment."""

    def add(self, task: TaskCounts) -> Decision | None:
        """Take the next task; None to go on. Not called again after a decision."""


MakeRule = Callable[[float, float], StopRule]


def load_rule(threshold: float, alpha: float) -> StopRule:
    """The installed rule. Raises UsageError where there is none."""
    found = next(iter(entry_points(group=ENTRY_POINT_GROUP, name=_RULE)), None)
    if found is None:
        raise UsageError(f"--sequential needs a stop rule: no package offers {_RULE!r} under {ENTRY_POINT_GROUP!r}")
    make: MakeRule = found.load()
    return make(threshold, alpha)


def in_random_order(tasks: Sequence[Task | BrokenTask], seed: int) -> list[Task | BrokenTask]:
    """The same tasks in an order that only their names and the seed decide."""
    by_name = sorted(tasks, key=lambda task: task.name)
    return random.Random(f"{seed}/order").sample(by_name, len(by_name))  # noqa: S311


class EarlyStop:
    """Tells a rule of every task in the planned order, as soon as it and all tasks before it are over."""

    def __init__(self, rule: StopRule, planned: Iterable[TrialSpec], summary: JobSummary) -> None:
        self._rule = rule
        self._summary = summary
        self._open: dict[str, set[tuple[str, int]]] = {}
        self._attempts: dict[str, list[tuple[str, int]]] = {}
        for spec in planned:
            key = (spec.task.name, spec.attempt)
            self._open.setdefault(spec.task.name, set()).add(key)
            self._attempts.setdefault(spec.task.name, []).append(key)
        self._waiting = list(reversed(self._attempts))
        self.decision: Decision | None = None

    def settle(self, task_name: str, attempt: int) -> Decision | None:
        """An attempt is over and will not be repeated. The decision, once there is one."""
        self._open[task_name].discard((task_name, attempt))
        while self.decision is None and self._waiting and not self._open[self._waiting[-1]]:
            self.decision = self._rule.add(self._counts(self._waiting.pop()))
        return self.decision

    def _counts(self, task_name: str) -> TaskCounts:
        attempts = self._attempts[task_name]
        ended = [self._summary.last[key] for key in attempts if key in self._summary.last]
        counted = [each for each in ended if each.counted]
        return TaskCounts(passed=sum(map(self._summary.passed, counted)), counted=len(counted), total=len(attempts))
