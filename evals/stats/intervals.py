"""Intervals of one run: of a proportion, of attempts that cluster in tasks, and of graded rewards.

The default for a success rate is Wilson's, which `harness.job.interval` owns because every job ends with one; here
stand the others. Clopper-Pearson never covers less than it says, Jeffreys is the Bayesian one, and a mean of graded
rewards has Student's t over the means of its tasks (Miller 2024, arXiv 2411.00640): tasks are the sample.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import NormalDist, fmean, stdev

from harness.errors import UsageError
from harness.job.interval import clustered_wilson, effective_n, wilson
from harness.job.student import t_quantile

__all__ = [
    "agresti_coull",
    "clopper_pearson",
    "cluster_error",
    "clustered_wilson",
    "design_effect",
    "effective_n",
    "fixed_tasks_error",
    "intraclass_correlation",
    "jeffreys",
    "t_interval",
    "wilson",
]

Interval = tuple[float, float]


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> Interval | None:
    """The exact interval, from the tails of the binomial; None for n = 0. Needs scipy."""
    _require_counts(successes, n)
    if n == 0:
        return None
    tail = (1 - confidence) / 2
    low = _beta_quantile(successes, n - successes + 1, tail) if successes else 0.0
    high = _beta_quantile(successes + 1, n - successes, 1 - tail) if successes < n else 1.0
    return low, high


def jeffreys(successes: int, n: int, confidence: float = 0.95) -> Interval | None:
    """The equal-tailed posterior under Beta(½, ½), closed at 0 and at n successes; None for n = 0. Needs scipy."""
    _require_counts(successes, n)
    if n == 0:
        return None
    tail = (1 - confidence) / 2
    low = _beta_quantile(successes + 0.5, n - successes + 0.5, tail) if successes else 0.0
    high = _beta_quantile(successes + 0.5, n - successes + 0.5, 1 - tail) if successes < n else 1.0
    return low, high


def agresti_coull(successes: int, n: int, confidence: float = 0.95) -> Interval | None:
    """Wald's interval around Wilson's centre, clipped to [0, 1]; None for n = 0."""
    _require_counts(successes, n)
    if n == 0:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    size = n + z * z
    centre = (successes + z * z / 2) / size
    half = z * math.sqrt(centre * (1 - centre) / size)
    return max(0.0, centre - half), min(1.0, centre + half)


def t_interval(task_means: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Student's t over one number per task; None for fewer than two tasks, where the spread is unknown."""
    count = len(task_means)
    if count < 2:
        return None
    centre = fmean(task_means)
    half = t_quantile((1 + confidence) / 2, count - 1) * stdev(task_means) / math.sqrt(count)
    return centre - half, centre + half


def cluster_error(groups: Collection[Sequence[float]], *, corrected: bool = True) -> float | None:
    """The standard error of the mean over all attempts, given by task: √(Σ_c(Σ_i s_i - s̄)²) / n, the sandwich CR0.

    `corrected` multiplies by √(C/(C-1)): CR1. With as many attempts in every task that is sd(task means)/√C.
    None for fewer than two tasks.
    """
    filled = [group for group in groups if group]
    n, count = sum(map(len, filled)), len(filled)
    if count < 2:
        return None
    mean = sum(map(sum, filled)) / n
    variance = sum((sum(group) - mean * len(group)) ** 2 for group in filled) / n**2
    return math.sqrt(variance * (count / (count - 1) if corrected else 1.0))


def clustered_t(groups: Collection[Sequence[float]], confidence: float = 0.95) -> Interval | None:
    """Student's t around the mean over all attempts, given by task, with the cluster-robust error CR1.

    With as many attempts in every task that is `t_interval` of the tasks' means; with unequal numbers it stays around
    the mean that it belongs to. None for fewer than two tasks.
    """
    error = cluster_error(groups)
    if error is None:
        return None
    mean = fmean(value for group in groups for value in group)
    half = t_quantile((1 + confidence) / 2, sum(1 for group in groups if group) - 1) * error
    return mean - half, mean + half


def fixed_tasks_error(counts: Collection[tuple[int, int]]) -> float | None:
    """The standard error of the mean rate on exactly these tasks: only the noise between attempts of one task counts.

    `counts` are (successes, attempts) per task. None where some task has fewer than two attempts.
    """
    if not counts or any(n < 2 for _, n in counts):
        return None
    return math.sqrt(sum(c / n * (1 - c / n) / (n - 1) for c, n in counts)) / len(counts)


def intraclass_correlation(groups: Sequence[Sequence[float]]) -> float | None:
    """How alike attempts of one task are, by the analysis of variance: 1 all alike, 0 as different as any.

    Needs two tasks or more, all with the same number of attempts, two or more; else None, as without any variance.
    """
    count, size = len(groups), len(groups[0]) if groups else 0
    if count < 2 or size < 2 or any(len(group) != size for group in groups):
        return None
    means = [fmean(group) for group in groups]
    mean = fmean(means)
    between = size * sum((each - mean) ** 2 for each in means) / (count - 1)
    within = sum((s - each) ** 2 for group, each in zip(groups, means, strict=True) for s in group)
    within /= count * (size - 1)
    whole = between + (size - 1) * within
    return (between - within) / whole if whole else None


def design_effect(correlation: float, attempts: int) -> float:
    """How many times the variance exceeds that of as many independent attempts: 1 + (K-1)·ICC."""
    return 1 + (attempts - 1) * correlation


def _require_counts(successes: int, n: int) -> None:
    if not 0 <= successes <= n:
        raise ValueError(f"no success rate: {successes} of {n}")


def _beta_quantile(a: float, b: float, p: float) -> float:
    try:
        from scipy.special import betaincinv
    except ImportError as error:
        raise UsageError("this interval needs scipy: pip install 'harness-rl[evals]'") from error
    return float(betaincinv(a, b, p))
