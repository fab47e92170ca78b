"""The end of `harness run` and `harness resume`: the table, what to do next, and the exit code."""

from __future__ import annotations

import json
import shlex
from typing import TextIO

from rich.console import Console

from harness.cli.display import end_table
from harness.cli.text import duration, percent, plain
from harness.failures import Outcome
from harness.job.progress import summary_document
from harness.job.runner import JobOutcome
from harness.job.scheduler import Stopping

OK, BELOW, INFRA, INTERRUPTED = 0, 1, 3, 130


def report(outcome: JobOutcome, console: Console, *, json_to: TextIO | None) -> None:
    """Print what the job came to: as one JSON line to `json_to`, else as a table."""
    if json_to is not None:
        document = {"event": "end", "job": str(outcome.paths.root), **summary_document(outcome.summary)}
        document["stopped_early"] = outcome.decision.model_dump() if outcome.decision else None
        json_to.write(json.dumps(document, allow_nan=False) + "\n")
        json_to.flush()
        return
    summary = outcome.summary
    counts = summary.counts
    console.print(end_table(summary))
    console.print(_accounts(outcome), markup=False, highlight=False, soft_wrap=True)
    for category, tag, count in summary.failures():
        console.print(f"  {count} x {tag} ({category})", markup=False, highlight=False)
    for finding in outcome.findings[:20]:
        console.print(f"note: {plain(finding)}", markup=False, highlight=False, soft_wrap=True)
    if outcome.decision:
        console.print(f"ended by its stop rule: {outcome.decision}", markup=False, highlight=False, soft_wrap=True)
    folder = shlex.quote(str(outcome.paths.root))
    console.print(f"record: {plain(str(outcome.paths.root))}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"next:   harness show {plain(folder)}", markup=False, highlight=False, soft_wrap=True)
    if outcome.decision and counts["pending"]:
        line = f"        harness resume {plain(folder)} --no-sequential   (runs the rest)"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    elif counts["pending"] or counts[Outcome.INFRA_ERROR.value] or counts[Outcome.CANCELLED.value]:
        console.print(f"        harness resume {plain(folder)}", markup=False, highlight=False, soft_wrap=True)


def _accounts(outcome: JobOutcome) -> str:
    """The counts, which add up, and what the job took."""
    summary = outcome.summary
    counts = {name: count for name, count in summary.counts.items() if count}
    parts = [
        f"{summary.n_total} attempt{'' if summary.n_total == 1 else 's'}: "
        + ", ".join(f"{count} {name}" for name, count in counts.items())
    ]
    if summary.n_retries:
        parts.append(f"{summary.n_retries} more executions, of attempts that were repeated or resumed")
    rate = summary.rate()
    if rate.n and rate.n < rate.total:
        parts.append(f"if everything unscored had failed: {percent(rate.worst_case)}")
    if summary.spent["in"] is not None or summary.spent["out"] is not None:
        parts.append(f"{summary.spent['in'] or 0:,.0f} tokens in, {summary.spent['out'] or 0:,.0f} out")
    if summary.spent["cost"] is not None:
        parts.append(f"${summary.spent['cost']:.4f}")
    parts.append(f"took {duration(outcome.seconds)}")
    return "; ".join(parts)


def exit_code(outcome: JobOutcome, *, max_infra: float, fail_under: float | None) -> int:
    """0 the job ran, 1 below `fail_under`, 3 too much infrastructure trouble to trust it, 130 interrupted."""
    ended_by_rule = outcome.decision is not None and outcome.stopped < Stopping.NOW
    if outcome.stopped and not (outcome.disk_full or ended_by_rule):
        return INTERRUPTED
    rate = outcome.summary.rate()
    if outcome.disk_full or outcome.summary.infra_rate > max_infra or rate.n == 0:
        return INFRA
    if fail_under is not None and (rate.value is None or rate.value < fail_under):
        return BELOW
    return OK


class Interrupts:
    """Ctrl-C: the first lets what runs finish, the second stops it, the third gives up waiting."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> tuple[Stopping | None, str]:
        """What to do at the next one, and what to tell the operator. None: leave at once."""
        self.count += 1
        if self.count == 1:
            return Stopping.DRAIN, "interrupted: finishing what runs; press Ctrl-C again to stop it"
        if self.count == 2:
            return Stopping.NOW, "stopping; sandboxes are being removed"
        return None, "leaving; what is left running ends by its time to live, or at the next run"
