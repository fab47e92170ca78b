"""What agents did, over all attempts: a row for every number that records tell, whatever it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from evals.report.attempts import Attempt, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """One number over the attempts that count and tell it: `n` of them. None where none passed, or none failed."""

    name: str
    n: int
    mean: float
    median: float
    most: float
    passed: float | None
    failed: float | None


def traits(job: Job) -> list[Trait]:
    """In the order of the records. A zero that is known stands in the table; what nobody tells does not."""
    counted = [each for each in job.attempts if job.counts(each) and each.finished.counted]
    names = dict.fromkeys(name for each in counted for name in each.behaviour)
    return [_trait(job, name, [each for each in counted if name in each.behaviour]) for name in names]


def _trait(job: Job, name: str, attempts: Sequence[Attempt]) -> Trait:
    values = [each.behaviour[name] for each in attempts]
    passed = [each.behaviour[name] for each in attempts if job.summary.passed(each.finished)]
    failed = [each.behaviour[name] for each in attempts if not job.summary.passed(each.finished)]
    return Trait(
        name=name,
        n=len(values),
        mean=fmean(values),
        median=median(values),
        most=max(values),
        passed=fmean(passed) if passed else None,
        failed=fmean(failed) if failed else None,
    )
