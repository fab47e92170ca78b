"""What a comparison can detect: the smallest effect found with a given power, and how many tasks that takes.

Power .5 is the threshold of significance: an effect of exactly that size is found half of the time.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from statistics import NormalDist, fmean


def quantile(p: float) -> float:
    """Of the standard normal distribution."""
    return NormalDist().inv_cdf(p)


def mde(n: int, p: float = 0.5, *, alpha: float = 0.05, power: float = 0.8, z: float | None = None) -> float:
    """The smallest difference between two independent runs of `n` tasks each, two-sided: (z + z_power)·√(2p(1-p)/n).

    `z` replaces the quantile that `alpha` gives. With power .5 it is z·√(2p(1-p)/n).
    """
    _require(n, power)
    return ((z or quantile(1 - alpha / 2)) + quantile(power)) * math.sqrt(2 * p * (1 - p) / n)


def mde_of_a_drop(n: int, p: float, *, alpha: float = 0.05, power: float = 0.8, sides: int = 2) -> float:
    """The drop from `p` that is found: pooled variance if nothing changed, each run's own if something did.

    Solves d = z_α·√(2p̄(1-p̄)/n) + z_power·√((p(1-p) + q(1-q))/n) with q = p-d, p̄ = p-d/2. At most `p`.
    """
    _require(n, power)
    low, high = 0.0, p
    for _ in range(60):
        d = (low + high) / 2
        q, middle = p - d, p - d / 2
        needed = quantile(1 - alpha / sides) * math.sqrt(2 * middle * (1 - middle) / n)
        needed += quantile(power) * math.sqrt((p * (1 - p) + q * (1 - q)) / n)
        low, high = (low, d) if d >= needed else (d, high)
    return high


def tasks_needed(p: float, q: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Tasks in each of two independent runs that tell a rate of `p` from `q` (Fleiss, without continuity)."""
    middle = (p + q) / 2
    spread = quantile(1 - alpha / 2) * math.sqrt(2 * middle * (1 - middle))
    spread += quantile(power) * math.sqrt(p * (1 - p) + q * (1 - q))
    return (spread / (p - q)) ** 2


def within_variance(counts: Collection[tuple[int, int]]) -> float | None:
    """σ², the mean over tasks of p(1-p), unbiased from (successes, attempts): c(K-c)/(K(K-1)).

    Tasks with one attempt tell nothing of it; None where all have.
    """
    known = [c * (n - c) / (n * (n - 1)) for c, n in counts if n >= 2]
    return fmean(known) if known else None


def paired_mde(
    tasks: int, attempts: int, within: float, *, between: float = 0.0, alpha: float = 0.05, power: float = 0.8
) -> float:
    """The smallest drop that a paired one-sided test finds: (z_α + z_power)·√((ω² + 2σ²/K)/C).

    `within` is σ², the variance between attempts of one task; `between` is ω², that of the tasks' true changes. A
    little rosy: a drop that falls on few tasks raises the variance. `evals.gate.simulate` does without the formula.
    """
    _require(tasks, power)
    spread = (between + 2 * within / attempts) / tasks
    return (quantile(1 - alpha) + quantile(power)) * math.sqrt(spread)


def attempts_needed(
    tasks: int, drop: float, within: float, *, between: float = 0.0, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """Attempts per task with which `paired_mde` is at most `drop`; None where no number is enough."""
    room = tasks * (drop / (quantile(1 - alpha) + quantile(power))) ** 2 - between
    return max(1, math.ceil(2 * within / room - 1e-9)) if room > 0 else None


def mde_of_changes(tasks: int, discordant: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest drop for one attempt per task, where a share ψ of tasks change: (z_α + z_power)·√(ψ/n)."""
    _require(tasks, power)
    return (quantile(1 - alpha) + quantile(power)) * math.sqrt(discordant / tasks)


def _require(n: int, power: float) -> None:
    if n < 1 or not 0 < power < 1:
        raise ValueError(f"no power: n = {n}, power = {power}")
