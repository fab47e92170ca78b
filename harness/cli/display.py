"""Watching a job: a live panel on a terminal, plain lines elsewhere, JSON lines for machines.

All names and messages come from tasks and agents: they are escaped, and control characters are shown, not obeyed.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Protocol, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.cli.text import duration, percent, plain
from harness.job.runner import RunningJob
from harness.job.summary import JobSummary
from harness.records import TrialResult
from harness.trial.events import Event, Phase, PhaseStarted, StoppedEarly, TrialFinished, TrialRetried, TrialStarted

_SHOWN_TRIALS = 8
_HEARTBEAT_SEC = 30.0


class Display(Protocol):
    """Something that shows a job while it runs."""

    def start(self, job: RunningJob) -> None:
        """The job starts."""

    def event(self, event: Event) -> None:
        """Something happened."""

    def say(self, line: str) -> None:
        """A line for the operator."""

    def close(self) -> None:
        """Nothing more comes."""


def make_display(console: Console, *, plain_lines: bool) -> Display:
    """The live panel on a terminal, else plain lines."""
    if plain_lines or not console.is_terminal:
        return PlainDisplay(console)
    return LiveDisplay(console)


class JsonDisplay:
    """One JSON object per finished execution on `out`; what is said to the operator goes to `console`."""

    def __init__(self, out: TextIO, console: Console) -> None:
        self._out = out
        self._console = console

    def start(self, job: RunningJob) -> None:
        self._write(
            {
                "event": "start",
                "job": str(job.paths.root),
                "total": job.summary.n_total,
                "owed": job.n_owed,
                "sandboxes": job.sandboxes,
            }
        )

    def event(self, event: Event) -> None:
        if isinstance(event, TrialFinished):
            self._write({"event": "trial", **_essence(event.result)})
        elif isinstance(event, StoppedEarly):
            self._write({"event": "stopped_early", "why": event.why})

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        pass

    def _write(self, document: dict[str, object]) -> None:
        self._out.write(json.dumps(document, ensure_ascii=True, allow_nan=False) + "\n")
        self._out.flush()


def _essence(result: TrialResult) -> dict[str, object]:
    return {
        "trial": result.trial_name,
        "task": result.task_name,
        "attempt": result.attempt,
        "retry": result.retry,
        "outcome": result.outcome.value if result.outcome else None,
        "reward": result.reward,
        "failure": result.failure.tag if result.failure else None,
        "category": result.failure.category.value if result.failure else None,
    }


class PlainDisplay:
    """One line per finished execution, and a sign of life when nothing finishes for a while."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._job: RunningJob | None = None
        self._done = 0
        self._last = time.monotonic()

    def start(self, job: RunningJob) -> None:
        self._job = job
        self.say(f"{job.n_owed} of {job.summary.n_total} attempts to run; record: {plain(str(job.paths.root))}")
        if job.sandboxes:
            self.say(f"sandboxes: {plain(job.sandboxes)}")

    def event(self, event: Event) -> None:
        if isinstance(event, TrialFinished) and self._job is not None:
            self._done += 1
            self.say(f"[{self._done}/{self._job.n_owed}] {_one_line(event.result)}")
        elif isinstance(event, TrialRetried):
            self._done -= 1  # the attempt is still owed
            self.say(f"  {plain(event.result.trial_name)} is repeated in {event.delay_sec:.0f} s")
        elif isinstance(event, StoppedEarly):
            self.say(f"decided, nothing more is started: {event.why}")
        elif self._job is not None and time.monotonic() - self._last > _HEARTBEAT_SEC:
            self.say(f"... {self._done}/{self._job.n_owed} done")

    def say(self, line: str) -> None:
        self._last = time.monotonic()
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        pass


def _one_line(result: TrialResult) -> str:
    reward = "-" if result.reward is None else f"{result.reward:g}"
    outcome = result.outcome.value if result.outcome else "ended"
    why = f" ({result.failure.tag}: {plain(result.failure.message)[:160]})" if result.failure else ""
    seconds = None
    if result.started_at and result.finished_at:
        seconds = (result.finished_at - result.started_at).total_seconds()
    return f"{plain(result.trial_name)} {outcome} reward={reward} {duration(seconds)}{why}"


@dataclass(slots=True)
class _Row:
    task: str
    since: float
    phase: Phase = Phase.QUEUED
    step: str | None = None
    phase_since: float = 0.0


class LiveDisplay:
    """A panel that is redrawn in place: progress, ETA, rate so far, failures, spending, and the slowest trials."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: dict[str, _Row] = {}
        self._started = time.monotonic()
        self._done = 0
        self._retries = 0
        self._job: RunningJob | None = None
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def start(self, job: RunningJob) -> None:
        self._job = job
        if job.sandboxes:
            self.say(f"sandboxes: {plain(job.sandboxes)}")
        self._live.start()

    def event(self, event: Event) -> None:
        now = time.monotonic()
        if isinstance(event, TrialStarted):
            self._rows[event.trial_name] = _Row(task=event.task_name, since=now, phase_since=now)
        elif isinstance(event, PhaseStarted) and event.trial_name in self._rows:
            row = self._rows[event.trial_name]
            row.phase, row.step, row.phase_since = event.phase, event.step, now
        elif isinstance(event, TrialFinished):
            self._rows.pop(event.result.trial_name, None)
            self._done += 1
        elif isinstance(event, TrialRetried):
            self._retries += 1
        elif isinstance(event, StoppedEarly):
            self.say(f"decided, nothing more is started: {event.why}")

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False)

    def close(self) -> None:
        self._live.stop()

    def _render(self) -> RenderableType:
        if self._job is None:
            return Text("")
        return Group(self._head(self._job), *_numbers(self._job.summary), self._running())

    def _head(self, job: RunningJob) -> RenderableType:
        finished = self._done - self._retries
        elapsed = time.monotonic() - self._started
        eta = elapsed / finished * (job.n_owed - finished) if finished else None
        head = Table.grid(padding=(0, 1))
        head.add_row(
            ProgressBar(total=max(1, job.n_owed), completed=finished, width=30),
            f"{finished}/{job.n_owed}",
            f"{duration(elapsed)} elapsed",
            f"ETA {duration(eta)}",
        )
        return head

    def _running(self) -> RenderableType:
        now = time.monotonic()
        table = Table.grid(padding=(0, 2))
        slowest = sorted(self._rows.items(), key=lambda item: item[1].since)
        for name, row in slowest[:_SHOWN_TRIALS]:
            phase = row.phase.value + (f" {plain(row.step)}" if row.step else "")
            table.add_row(
                Text(plain(name), style="cyan"),
                Text(phase),
                f"{duration(now - row.phase_since)}",
                duration(now - row.since),
            )
        if len(slowest) > _SHOWN_TRIALS:
            table.add_row(f"and {len(slowest) - _SHOWN_TRIALS} more", "", "", "")
        return table


def _numbers(summary: JobSummary) -> list[RenderableType]:
    rate = summary.rate()
    interval = f" [{percent(rate.interval[0])}, {percent(rate.interval[1])}]" if rate.interval else ""
    spent = f"tokens {summary.spent['in'] or 0:,.0f} in {summary.spent['out'] or 0:,.0f} out"
    if summary.spent["cost"] is not None:
        spent += f"   ${summary.spent['cost']:.4f}"
    lines = [Text(f"passed {rate.successes}/{rate.n} {percent(rate.value)}{interval}   {spent}")]
    failures = summary.failures()[:4]
    if failures:
        lines.append(Text("failures: " + ", ".join(f"{tag} {count}" for _, tag, count in failures), style="yellow"))
    return list(lines)


def end_table(summary: JobSummary) -> Table:
    """The result: a row for all and for each category, with its interval and n."""
    table = Table(title=None, show_edge=False, pad_edge=False)
    table.add_column("category")
    for name in ("passed", "n", "rate", "95% interval", "mean reward", "unscored"):
        table.add_column(name, justify="right")
    names: list[str | None] = [*summary.categories(), None]
    for category in names:
        rate = summary.rate(category)
        known = rate.interval if not rate.incomplete else None
        interval = f"{percent(known[0])} - {percent(known[1])}" if known else "n/a"
        table.add_row(
            escape(plain(category)) if category else "[bold]all[/bold]",
            str(rate.successes),
            str(rate.n),
            "incomplete" if rate.incomplete else percent(rate.value),
            interval,
            "n/a" if rate.mean_reward is None or rate.incomplete else f"{rate.mean_reward:.3f}",
            str(rate.total - rate.n),
            end_section=category is not None and category == names[-2],
        )
    return table
