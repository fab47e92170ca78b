"""A job in numbers by category, difficulty, tag, task or agent. n stands next to every number.

The rate of a group is over its counted attempts; next to it stands what it would be if all that is missing had
failed, and if it had passed. A group in which too much is missing is incomplete, and has no rate at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Any

from evals.categories import MIN_N, UNCATEGORISED, Category, groups_of, in_order
from evals.stats.intervals import clopper_pearson, clustered_t, clustered_wilson, fixed_tasks_error
from evals.stats.passk import OverTasks, over_tasks, pass_at_k, pass_hat_k
from harness.job.summary import MIN_COVERAGE, Finished, JobSummary

FORMAT, VERSION = "harness-summary", 1


class By(StrEnum):
    """What attempts are grouped by."""

    CATEGORY = "category"
    DIFFICULTY = "difficulty"
    TAG = "tag"
    TASK = "task"
    AGENT = "agent"


class Ci(StrEnum):
    """The interval of a success rate."""

    WILSON = "wilson"
    EXACT = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One group.

    Attributes:
        n: attempts that count, of `total`; successes are of n.
        rate, interval: None where the group is incomplete. worst, best: if all that is missing had failed, passed.
        interval: for tasks like these; of a single task, by itself, for attempts like these.
        reward, reward_interval: the mean reward; the interval is Student's t over tasks, where rewards are graded.
        few: fewer tasks than the category's min_n.
    """

    key: str
    label: str
    tasks: int
    n: int
    total: int
    successes: int
    rate: float | None
    interval: tuple[float, float] | None
    worst: float | None
    best: float | None
    reward: float | None
    reward_interval: tuple[float, float] | None
    incomplete: bool
    few: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """All groups, all together, and what several attempts tell.

    Attributes:
        pass_at, pass_hat: pass@k and pass^k by k, over tasks; empty for one attempt per task.
        flaky: names of tasks that passed some attempts and failed others.
        fixed_error: the standard error of the rate on exactly these tasks, where every one has several attempts; the
            interval, which is wider, is for tasks like these.
        decided: why a stop rule ended the job; what is pending then was never asked for.
    """

    by: By
    rows: tuple[Row, ...]
    all: Row
    counts: Mapping[str, int]
    retries: int
    pass_at: Mapping[int, OverTasks]
    pass_hat: Mapping[int, OverTasks]
    flaky: tuple[str, ...]
    fixed_error: float | None
    cost: float | None
    seconds: float | None
    decided: str | None = None


def scorecard(
    summary: JobSummary,
    by: By,
    categories: Mapping[str, Category],
    *,
    ci: Ci = Ci.WILSON,
    min_coverage: float = MIN_COVERAGE,
) -> Scorecard:
    """Group a job's attempts. Each row's denominators follow one rule, and a task may be in several groups."""
    attempts = list(summary.last.values())
    groups: dict[str, list[Finished]] = defaultdict(list)
    for each in attempts:
        for key in _keys(by, each):
            groups[key].append(each)

    def row(key: str, label: str, of: Sequence[Finished], total: int, min_n: int, *, alone: bool) -> Row:
        return _row(key, label, of, total, min_n, alone=alone, passed=summary.passed, ci=ci, min_coverage=min_coverage)

    by_task = _by_task(each for each in attempts if each.counted)
    counts = [(len(group), sum(map(summary.passed, group))) for group in by_task.values()]
    most = max((len(group) for group in by_task.values()), default=0)
    known = categories if by is By.CATEGORY else {}
    return Scorecard(
        by=by,
        rows=tuple(
            row(
                key,
                known[key].label if key in known else key,
                groups[key],
                len(groups[key]),
                known[key].min_n if key in known else 1 if by in (By.TASK, By.AGENT) else MIN_N,
                alone=by is By.TASK,
            )
            for key in in_order(groups, known)
        ),
        all=row("all", "all", attempts, summary.n_asked, 1, alone=False),
        counts=summary.counts,
        retries=summary.n_retries,
        pass_at={k: over_tasks(pass_at_k, counts, k) for k in _ks(most)},
        pass_hat={k: over_tasks(pass_hat_k, counts, k) for k in _ks(most)},
        flaky=tuple(sorted(name for (name, group), (n, c) in zip(by_task.items(), counts, strict=True) if 0 < c < n)),
        fixed_error=fixed_tasks_error([(c, n) for n, c in counts]),
        cost=summary.spent["cost"],
        seconds=_seconds(attempts),
        decided=summary.decided,
    )


def _keys(by: By, each: Finished) -> tuple[str, ...]:
    grouping: dict[By, Callable[[], tuple[str, ...]]] = {
        By.CATEGORY: lambda: groups_of(each.categories, each.task_tags),
        By.DIFFICULTY: lambda: (each.difficulty or "unknown",),
        By.TAG: lambda: tuple(dict.fromkeys(each.task_tags)) or (UNCATEGORISED,),
        By.TASK: lambda: (each.task_name,),
        By.AGENT: lambda: (f"{each.agent} ({each.model})" if each.model else each.agent,),
    }
    return grouping[by]()


def _by_task(attempts: Iterable[Finished]) -> dict[str, list[Finished]]:
    found: dict[str, list[Finished]] = defaultdict(list)
    for each in attempts:
        found[each.task_name].append(each)
    return found


def _row(
    key: str,
    label: str,
    attempts: Sequence[Finished],
    total: int,
    min_n: int,
    *,
    alone: bool,
    passed: Callable[[Finished], bool],
    ci: Ci,
    min_coverage: float,
) -> Row:
    by_task = _by_task(each for each in attempts if each.counted)
    wins = [[passed(each) for each in group] for group in by_task.values()]
    n, successes = sum(map(len, wins)), sum(map(sum, wins))
    incomplete = n == 0 or n / total < min_coverage
    rewards = [[each.reward or 0.0 for each in group] for group in by_task.values()]
    graded = any(each.reward not in (None, 0.0, 1.0) for group in by_task.values() for each in group)
    if alone and wins:  # one task by itself, whose attempts are independent
        wins = [[win] for win in wins[0]]
    exact = ci is Ci.EXACT and n == len(wins)
    interval = clopper_pearson(successes, n) if exact else clustered_wilson(wins)
    return Row(
        key=key,
        label=label,
        tasks=len({each.task_name for each in attempts}),
        n=n,
        total=total,
        successes=successes,
        rate=None if incomplete else successes / n,
        interval=None if incomplete else interval,
        worst=successes / total if total else None,
        best=(successes + total - n) / total if total else None,
        reward=None if incomplete else fmean(reward for group in rewards for reward in group),
        reward_interval=clustered_t(rewards) if graded and not incomplete else None,
        incomplete=incomplete,
        few=0 < len(by_task) < min_n,
    )


def _ks(most: int) -> list[int]:
    """Every k up to 5, then doubling, and the last."""
    if most < 2:
        return []
    return [k for k in range(1, most + 1) if k <= 5 or k == most or k & (k - 1) == 0]


def _seconds(attempts: Sequence[Finished]) -> float | None:
    known = [each.seconds for each in attempts if each.seconds is not None]
    return sum(known) if known else None


def document(card: Scorecard, job: str, findings: Sequence[str]) -> dict[str, Any]:
    """The scorecard for machines; unknown is null."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "job": job,
        "by": card.by.value,
        "counts": dict(card.counts),
        "retries": card.retries,
        "all": _row_document(card.all),
        "groups": [_row_document(row) for row in card.rows],
        "pass_at_k": {str(k): _over_document(value) for k, value in card.pass_at.items()},
        "pass_hat_k": {str(k): _over_document(value) for k, value in card.pass_hat.items()},
        "flaky": list(card.flaky),
        "standard_error_on_these_tasks": card.fixed_error,
        "cost_usd": card.cost,
        "trial_seconds": card.seconds,
        "findings": list(findings),
    }


def _row_document(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in Row.__dataclass_fields__}


def _over_document(value: OverTasks) -> dict[str, Any]:
    return {"value": value.value, "tasks": value.n_defined, "of_tasks": value.n_tasks}
