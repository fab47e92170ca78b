"""Two runs next to each other: overall, by category, by task, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from statistics import fmean

from evals.categories import MIN_N, Category, groups_of, in_order
from evals.difference import Counts, Difference, Totals, difference, flips_of
from evals.pairing import Pairing
from evals.run import Run, TaskRun
from evals.stats.multiplicity import benjamini_hochberg
from evals.stats.paired import PairedT, SignFlip, fisher_exact, paired_t

Pairs = Sequence[tuple[TaskRun, TaskRun]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryDifference:
    """One category. `q` is its p_worse after Benjamini-Hochberg; `few`: it has fewer tasks than its min_n."""

    key: str
    label: str
    difference: Difference
    q: float = 1.0
    few: bool = False


@dataclass(frozen=True, slots=True)
class Flip:
    """A task whose success rate changed."""

    base: TaskRun
    new: TaskRun

    @property
    def value(self) -> float:
        return (self.new.rate or 0.0) - (self.base.rate or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two runs show on the tasks that both have.

    Attributes:
        overall: None where no task has attempts that count in both.
        reward: of mean rewards, where some are graded; else None. reward_flips: its sign-flip test.
        flips: tasks that changed, the worst first.
        cost: per attempt that told one, (base, new), over tasks where both did. seconds: likewise.
        imbalance: p that attempts went missing as often in both runs (Fisher).
    """

    base: Run
    new: Run
    pairing: Pairing
    overall: Difference | None
    reward: PairedT | None
    reward_flips: SignFlip | None
    categories: tuple[CategoryDifference, ...]
    flips: tuple[Flip, ...]
    cost: tuple[float, float] | None
    seconds: tuple[float, float] | None
    imbalance: float


def counts_of(pairs: Pairs) -> list[tuple[Counts, Counts]]:
    """(passed, counted) of each pair."""
    return [((base.passed, base.counted), (new.passed, new.counted)) for base, new in pairs]


def rewards_of(pairs: Pairs) -> list[tuple[Totals, Totals]]:
    """(summed rewards, counted) of each pair."""
    return [((base.rewards, base.counted), (new.rewards, new.counted)) for base, new in pairs]


def compare(base: Run, new: Run, pairing: Pairing, categories: Mapping[str, Category]) -> Comparison:
    """Compare what `pairing` pairs."""
    pairs = pairing.graded
    reward = _reward(pairs)
    flips = [Flip(old, now) for old, now in pairs if old.rate != now.rate]
    return Comparison(
        base=base,
        new=new,
        pairing=pairing,
        overall=difference(counts_of(pairs)) if pairs else None,
        reward=reward,
        reward_flips=flips_of(rewards_of(pairs)) if reward else None,
        categories=_by_category(pairs, categories),
        flips=tuple(sorted(flips, key=lambda flip: (flip.value, flip.new.name))),
        cost=_cost(pairs),
        seconds=_seconds(pairs),
        imbalance=fisher_exact(_missing(base for base, _ in pairing.pairs), _missing(new for _, new in pairing.pairs)),
    )


def _missing(tasks: Iterable[TaskRun]) -> tuple[int, int]:
    return reduce(lambda sums, task: (sums[0] + task.missing, sums[1] + task.total), tasks, (0, 0))


def _reward(pairs: Pairs) -> PairedT | None:
    """Only where it says more than the success rate."""
    if all(task.rewards == task.passed for pair in pairs for task in pair):
        return None
    return paired_t([(new.reward or 0.0) - (base.reward or 0.0) for base, new in pairs])


def _by_category(pairs: Pairs, known: Mapping[str, Category]) -> tuple[CategoryDifference, ...]:
    groups = {key: pairs_of(pairs, key) for _, new in pairs for key in groups_of(new.categories, new.tags)}
    rows = [
        CategoryDifference(
            key=key,
            label=known[key].label if key in known else key,
            difference=difference(counts_of(groups[key])),
            few=len(groups[key]) < (known[key].min_n if key in known else MIN_N),
        )
        for key in in_order(groups, known)
    ]
    adjusted = benjamini_hochberg([row.difference.p_worse for row in rows])
    return tuple(replace(row, q=q) for row, q in zip(rows, adjusted, strict=True))


def pairs_of(pairs: Pairs, category: str) -> list[tuple[TaskRun, TaskRun]]:
    """The pairs whose task belongs to a category."""
    return [pair for pair in pairs if category in groups_of(pair[1].categories, pair[1].tags)]


def _cost(pairs: Pairs) -> tuple[float, float] | None:
    known = [(base, new) for base, new in pairs if base.cost is not None and new.cost is not None]
    if not known:
        return None
    base, new = (
        sum(pair[side].cost or 0.0 for pair in known) / sum(pair[side].priced for pair in known) for side in (0, 1)
    )
    return base, new


def _seconds(pairs: Pairs) -> tuple[float, float] | None:
    known = [(base.seconds, new.seconds) for base, new in pairs if base.seconds is not None and new.seconds is not None]
    return (fmean(base for base, _ in known), fmean(new for _, new in known)) if known else None
