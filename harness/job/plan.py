"""Which executions a job consists of, and which of them are still owed. Pure: no file is touched here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.failures import Outcome
from harness.task.model import BrokenTask, Task
from harness.trial.spec import TrialSpec

FINAL = frozenset({Outcome.SCORED, Outcome.AGENT_FAILED, Outcome.TASK_ERROR})
"""Outcomes that resuming leaves as they are; everything else is owed again."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What is known of an execution that has a folder; outcome None where it never came to a record."""

    task_name: str
    attempt: int
    retry: int
    outcome: Outcome | None


def plan(tasks: Sequence[Task | BrokenTask], n_attempts: int) -> list[TrialSpec]:
    """Every attempt of every task, a task's attempts next to each other so that its group completes early.

    A task that could not be loaded has one attempt: it cannot end differently.
    """
    return [
        TrialSpec(task=task, attempt=attempt)
        for task in tasks
        for attempt in range(1, (n_attempts if isinstance(task, Task) else 1) + 1)
    ]


def owed(
    planned: Sequence[TrialSpec], executions: Iterable[Execution], *, keep_errors: bool = False
) -> list[TrialSpec]:
    """The planned attempts without a final outcome, each with a retry number that no folder has yet.

    `keep_errors` also leaves alone what ended with an infrastructure error.
    """
    done: set[tuple[str, int]] = set()
    next_retry: dict[tuple[str, int], int] = {}
    for execution in executions:
        key = (execution.task_name, execution.attempt)
        next_retry[key] = max(next_retry.get(key, 0), execution.retry + 1)
        if execution.outcome in FINAL or (keep_errors and execution.outcome is Outcome.INFRA_ERROR):
            done.add(key)
    return [
        TrialSpec(task=spec.task, attempt=spec.attempt, retry=next_retry.get((spec.task.name, spec.attempt), 0))
        for spec in planned
        if (spec.task.name, spec.attempt) not in done
    ]
