"""What the templates of a page's sections are given of a job, and of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evals.compare import Comparison
from evals.report import words
from evals.report.attempts import Job
from evals.report.behaviour import traits
from evals.report.spending import spending


def job_context(job: Job) -> dict[str, Any]:
    """A job."""
    return {
        "name": job.name,
        "run": job.run,
        "card": job.card,
        "attempts": job.attempts,
        "verdict": words.verdict(job),
        "findings": job.run.findings,
        "failures": job.summary.failures(),
        "traits": traits(job),
        "pass_mark": f"{job.run.pass_mark:g}",
    }


def comparison_context(found: Comparison) -> dict[str, Any]:
    """Two jobs next to each other."""
    return {
        "found": found,
        "verdict": words.comparison(found),
        "flips": found.flips,
        "worse": sum(flip.value < 0 for flip in found.flips),
    }


def side_by_side(jobs: Sequence[Job]) -> list[tuple[str, list[str]]]:
    """What each job cost, by line."""
    tables = [dict(spending(job)) for job in jobs]
    names = dict.fromkeys(name for table in tables for name in table)
    return [(name, [table.get(name, "unknown") for table in tables]) for name in names]
