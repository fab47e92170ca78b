"""What a job cost, and where its time went, as lines of a table. Unknown is said, and never a zero."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median, quantiles

from evals.report.attempts import Job
from harness.cli.text import duration

Lines = list[tuple[str, str]]


def spending(job: Job) -> Lines:
    """Names and values."""
    ended = [each.finished for each in job.attempts if job.counts(each)]
    costs = [each.cost for each in ended if each.cost is not None]
    total = job.summary.spent["cost"]
    lines: Lines = [("Cost of all executions", _money(total))]
    lines.append(("Cost per attempt, mean", _with_n(_money(fmean(costs)), costs) if costs else "unknown"))
    if total is not None and job.card.all.successes:
        lines.append(("Cost per success", f"{_money(total / job.card.all.successes)} (n={job.card.all.successes})"))
    for name, key in (("Input tokens", "in"), ("of these cached", "cached"), ("Output tokens", "out")):
        value = job.summary.spent[key]
        lines.append((name, "unknown" if value is None else f"{value:,.0f}"))
    seconds = [each.seconds for each in ended if each.seconds is not None]
    lines.append(("Time of all attempts", _with_n(duration(sum(seconds)), seconds) if seconds else "unknown"))
    if len(seconds) > 1:
        late = quantiles(seconds, n=10, method="inclusive")[-1]
        lines.append(("Time per attempt", f"median {duration(median(seconds))}, 90% within {duration(late)}"))
    for phase in ("environment", "agent", "verifier"):
        known = [each.phases[phase] for each in job.attempts if job.counts(each) and phase in each.phases]
        if known:
            lines.append((f"of which {phase}, median", _with_n(duration(median(known)), known)))
    return lines


def _with_n(value: str, of: Sequence[float]) -> str:
    return f"{value} (n={len(of):,})"


def _money(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"${value:,.2f}" if value >= 100 else f"${value:.4f}"
