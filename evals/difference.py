"""The difference between two runs on the same tasks: its size, its interval, and how likely chance alone makes it.

Every task weighs the same, whatever its number of attempts. The p-values are of the exact sign-flip test, which for
one attempt per task is McNemar's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

from evals.stats.paired import (
    SignFlip,
    newcombe_paired,
    paired_t,
    sign_flip,
    sign_flip_graded,
    whole_differences,
)

Counts = tuple[int, int]
"""(successes, attempts) of one task."""

Totals = tuple[float, int]
"""(successes or summed rewards, attempts) of one task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """New minus base, over `tasks` tasks: below zero is worse.

    Attributes:
        interval: two-sided, 95 %; `method` names it.
        p: that there is no difference, two-sided; `p_worse`: that it is no worse, one-sided.
        changed: tasks whose rate differs; 2^-changed is the smallest possible `p_worse`.
    """

    tasks: int
    base: float
    new: float
    interval: tuple[float, float]
    method: str
    p: float
    p_worse: float
    changed: int

    @property
    def value(self) -> float:
        return self.new - self.base


def difference(pairs: Sequence[tuple[Counts, Counts]], confidence: float = 0.95) -> Difference:
    """Compare success counts per task, as (base, new). ValueError for no pairs."""
    flips = sign_flip(whole_differences(pairs))
    interval, method = interval_of(pairs, confidence)
    return Difference(
        tasks=len(pairs),
        base=fmean(c / n for (c, n), _ in pairs),
        new=fmean(c / n for _, (c, n) in pairs),
        interval=interval,
        method=method,
        p=flips.two_sided,
        p_worse=flips.worse,
        changed=flips.changed,
    )


def interval_of(pairs: Sequence[tuple[Counts, Counts]], confidence: float) -> tuple[tuple[float, float], str]:
    """The interval of the mean difference, and its name: Newcombe's for single attempts, else Student's t."""
    if all(n == 1 for pair in pairs for _, n in pair):
        seen = Counter((base, new) for (base, _), (new, _) in pairs)
        found = newcombe_paired(seen[1, 1], seen[1, 0], seen[0, 1], seen[0, 0], confidence)
        return found or (-1.0, 1.0), "Newcombe, paired"
    return t_interval_of(pairs, confidence), "Student's t over tasks"


def flips_of(pairs: Sequence[tuple[Totals, Totals]]) -> SignFlip:
    """The sign-flip test of the tasks' differences: exact for successes, and for rewards that have a common unit."""
    whole = [((int(c0), n0), (int(c1), n1)) for (c0, n0), (c1, n1) in pairs]
    if whole == list(pairs):
        return sign_flip(whole_differences(whole))
    return sign_flip_graded([c1 / n1 - c0 / n0 for (c0, n0), (c1, n1) in pairs])


def t_interval_of(pairs: Sequence[tuple[Totals, Totals]], confidence: float) -> tuple[float, float]:
    """Student's t over the tasks' differences.

    Where every task differs by the same, most often by nothing, the spread is unknown, not zero: then it is Wilson's
    bound for none of so many attempts, because a change that broke attempts would have shown in one of them.
    """
    found = paired_t([c1 / n1 - c0 / n0 for (c0, n0), (c1, n1) in pairs], confidence)
    if found.interval is not None and found.error:
        return max(-1.0, found.interval[0]), min(1.0, found.interval[1])
    square = NormalDist().inv_cdf((1 + confidence) / 2) ** 2
    attempts = min(sum(n for (_, n), _ in pairs), sum(n for _, (_, n) in pairs))
    half = square / (attempts + square)
    return max(-1.0, found.mean - half), min(1.0, found.mean + half)


def points(value: float, *, sign: bool = False) -> str:
    """A difference of shares, in percentage points."""
    shown = round(100 * value, 1) + 0.0  # no "-0.0"
    return f"{shown:+.1f}pp" if sign else f"{shown:.1f}pp"
