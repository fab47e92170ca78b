"""The verdict in plain words, n with every number. What these sentences quote from outside is not escaped."""

from __future__ import annotations

from dataclasses import dataclass

from evals.compare import Comparison
from evals.difference import points
from evals.report.attempts import Job
from harness.cli.text import percent
from harness.failures import Outcome

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line, and what has to be known to read it."""

    line: str
    notes: tuple[str, ...]


def verdict(job: Job) -> Verdict:
    """What a job says."""
    row, run = job.card.all, job.run
    who = run.agent + (f" with {run.model}" if run.model else "")
    notes = [_extremes(job)] if row.total > row.n else []
    pending = job.card.counts.get("pending", 0)
    if decided := job.summary.decided:
        notes.append(f"Ended by its stop rule: {decided}; {_n(pending, 'attempt')} {_were(pending)} not needed.")
    elif pending:
        notes.append(f"{_n(pending, 'attempt')} {_are(pending)} still pending: this job is unfinished.")
    if not row.n:
        nothing = "Nothing has finished yet" if pending == row.total else "No verdict"
        return Verdict(f"{nothing}: none of {_n(row.total, 'attempt')} says anything of {who}.", tuple(notes))
    if row.rate is None or row.interval is None:
        line = f"No verdict: only {row.n} of {_n(row.total, 'attempt')} say anything of {who}."
        return Verdict(line, (f"Of those, {row.successes} passed.", *notes))
    low, high = row.interval
    tasks = sum(task.counted > 0 for task in run.tasks.values())
    notes.insert(
        0,
        f"On tasks like {_these(tasks)} the rate lies between {percent(low)} and {percent(high)} "
        f"(95% interval, n={row.n}).",
    )
    if row.reward_interval and row.reward is not None:
        low, high = row.reward_interval
        notes.append(f"The mean reward is {row.reward:.3f} ({low:.3f} to {high:.3f}, n={row.n}).")
    line = f"{who} passed {row.successes} of {_n(row.n, 'attempt')}: {percent(row.rate)}."
    return Verdict(line, tuple(notes))


def _extremes(job: Job) -> str:
    row = job.card.all
    missing = row.total - row.n
    why = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in _missing(job).items())
    says, left, each = ("says", "is left out, not counted as a failure", "it")
    if missing > 1:
        says, left, each = ("say", "are left out, not counted as failures", "they all")
    return (
        f"{missing} of {_n(row.total, 'attempt')} {says} nothing of the agent ({why}) and {left}. "
        f"Had {each} failed, the rate would be {percent(row.worst)}; "
        f"had {each} passed, {percent(row.best)} (n={row.total})."
    )


def _missing(job: Job) -> dict[str, int]:
    """The attempts that say nothing of the agent, by outcome; what a stop rule spared is none of them."""
    others = {Outcome.SCORED, Outcome.AGENT_FAILED, *(["pending"] if job.summary.decided else [])}
    return {name: count for name, count in job.card.counts.items() if count and name not in others}


def comparison(found: Comparison) -> Verdict:
    """What two jobs say of each other: A is the first, B the second."""
    notes = []
    if not found.pairing.complete:
        names = found.pairing.left_out.replace("in the baseline", "in A").replace("in the job", "in B")
        notes.append(f"The jobs are not of the same tasks; left out: {names}.")
    if found.pairing.ungraded:
        tasks = _n(len(found.pairing.ungraded), "task")
        names = found.pairing.without_verdict
        notes.append(f"{tasks} left out for want of attempts that count in both: {names}.")
    overall = found.overall
    if overall is None:
        return Verdict("A and B cannot be compared: no task has attempts that count in both.", tuple(notes))
    low, high = overall.interval
    sure = overall.p <= ALPHA
    rates = f"{percent(overall.base)} in A, {percent(overall.new)} in B, on {_n(overall.tasks, 'task')}."
    if not sure:
        line = f"No difference is shown between A and B: {rates}"
    else:
        line = f"B passes {'more' if overall.value > 0 else 'less'} often than A: {rates}"
    notes.insert(
        0,
        f"The difference is {points(overall.value, sign=True)}, 95% interval {points(low, sign=True)} to "
        f"{points(high, sign=True)} ({overall.method}); p = {overall.p:.2g} (exact sign-flip, two-sided, "
        f"{_n(overall.tasks, 'task')}, of which {overall.changed} changed). Here every task weighs the same.",
    )
    if found.base.pass_mark != found.new.pass_mark:
        notes.append(f"The jobs have different pass marks: {found.base.pass_mark:g} and {found.new.pass_mark:g}.")
    if found.imbalance <= ALPHA:
        notes.append(f"Attempts did not go missing equally often in A and in B (p = {found.imbalance:.2g}, Fisher).")
    return Verdict(line, tuple(notes))


def _n(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _these(tasks: int) -> str:
    return "this one" if tasks == 1 else f"these {tasks:,}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
