"""A job as its report needs it: the numbers, and of every execution what a reader asks for. Read in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from evals.categories import Category, groups_of
from evals.run import Run, read_job
from evals.scorecard import By, Scorecard, scorecard
from harness.job.summary import Finished, JobSummary
from harness.records import ExceptionInfo, Failure, SandboxRecord, Timing, TrialResult, UserRecord, Verification


class Status(StrEnum):
    """What became of an execution, in the order in which a reader wants to see them."""

    FAILED = "failed"
    MISSING = "missing"
    REPEATED = "repeated"
    PASSED = "passed"


MARKS = {
    Status.PASSED: ("✓", "passed"),
    Status.FAILED: ("✗", "failed"),
    Status.MISSING: ("○", "missing"),
    Status.REPEATED: ("↻", "repeated"),
}
"""A sign and a word for each status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution.

    Attributes:
        folder: of its record.
        parts: the names of a task's steps, where it has several, else (None,): each has a trajectory and a verdict.
        verifications: how the verdict of each part came about, where it is known.
        phases: wall seconds of environment, agent and verifier, where they are known.
        behaviour: every number that the record tells, by name.
        ended: seconds since the epoch, to tell earlier from later; 0 where it is unknown.
    """

    folder: Path
    finished: Finished
    parts: tuple[str | None, ...]
    verifications: tuple[Verification | None, ...]
    failure: Failure | None
    exception: ExceptionInfo | None
    sandbox: SandboxRecord | None
    user: UserRecord | None
    phases: Mapping[str, float]
    behaviour: Mapping[str, float]
    ended: float = 0.0

    @classmethod
    def of(cls, folder: Path, result: TrialResult) -> Attempt:
        """The essence of a record."""
        steps = result.step_results or []
        timings = {
            "environment": [result.environment_setup],
            "agent": [result.agent_execution, *(step.agent_execution for step in steps)],
            "verifier": [result.verifier, *(step.verifier for step in steps)],
        }
        known = "behaviour" in result.model_fields_set
        return cls(
            folder=folder,
            finished=Finished.of(result),
            parts=tuple(step.step_name for step in steps) or (None,),
            verifications=tuple(step.verification for step in steps) or (result.verification,),
            failure=result.failure,
            exception=result.exception_info,
            sandbox=result.sandbox,
            user=result.user,
            phases={name: value for name, of in timings.items() if (value := _seconds(of)) is not None},
            behaviour=dict(_numbers(result.behaviour.model_dump(exclude_unset=True))) if known else {},
            ended=result.finished_at.timestamp() if result.finished_at else 0.0,
        )

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that its task belongs to."""
        return groups_of(self.finished.categories, self.finished.task_tags)


def _seconds(timings: Iterable[Timing | None]) -> float | None:
    known = [timing.seconds for timing in timings if timing is not None and timing.seconds is not None]
    return sum(known) if known else None


def _numbers(fields: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Every number below `fields`, with its path as words; a yes is 1 and a no is 0."""
    for name, value in fields.items():
        words = f"{prefix}{name.replace('_', ' ')}"
        if isinstance(value, bool | int | float):
            yield words, float(value)
        elif isinstance(value, Mapping):
            yield from _numbers(value, f"{words}: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job.

    Attributes:
        attempts: every execution, by task and attempt; those that were repeated come before what replaced them.
    """

    name: str
    folder: Path
    run: Run
    summary: JobSummary
    card: Scorecard
    attempts: tuple[Attempt, ...]

    def counts(self, attempt: Attempt) -> bool:
        """Whether it is the last execution of its attempt; the others were repeated."""
        found = attempt.finished
        return self.summary.last[found.task_name, found.attempt] == found

    def status(self, attempt: Attempt) -> Status:
        """What became of it."""
        if not self.counts(attempt):
            return Status.REPEATED
        if not attempt.finished.counted:
            return Status.MISSING
        return Status.PASSED if self.summary.passed(attempt.finished) else Status.FAILED


def load(folder: Path, categories: Mapping[str, Category]) -> Job:
    """Read a job's folder, ours or Harbor's, finished or not. Raises UsageError where it is none."""
    attempts: list[Attempt] = []
    run, summary = read_job(folder, lambda name, result: attempts.append(Attempt.of(folder / name, result)))
    return Job(
        name=folder.resolve().name,
        folder=folder,
        run=run,
        summary=summary,
        card=scorecard(summary, By.CATEGORY, categories),
        attempts=tuple(sorted(attempts, key=lambda each: _order(each.finished))),
    )


def _order(finished: Finished) -> tuple[str, int, int, str]:
    return finished.task_name, finished.attempt, finished.retry, finished.name
