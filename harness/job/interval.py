"""The Wilson score interval of a success rate, also when attempts cluster in tasks.

Wilson (1927): centre (p + z²/2n) / (1 + z²/n), half-width z/(1 + z²/n) · √(p(1-p)/n + z²/4n²). Several attempts of one
task are not independent; then n is replaced by the effective number p(1-p)/v of Korn and Graubard (1998), where v is
the cluster-robust variance of the mean, Σ_c(Σ_i s_i - p)² / n² · C/(C-1), and z by Student's t with C-1 degrees of
freedom, because v is an estimate from C tasks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import NormalDist

from harness.job.student import t_quantile

Z95 = 1.959963984540054


def wilson(successes: float, n: float, z: float = Z95) -> tuple[float, float] | None:
    """The interval of `successes` out of `n`; None for n = 0, where nothing is known. ValueError for nonsense."""
    if n == 0:
        return None
    if not (0 <= successes <= n and math.isfinite(n) and z > 0):
        raise ValueError(f"no success rate: {successes} of {n} at z = {z}")
    p = successes / n
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def cluster_variance(groups: Collection[Sequence[bool]]) -> float | None:
    """The variance of the mean over all attempts, given by task; None for fewer than two tasks."""
    filled = [group for group in groups if group]
    n, count = sum(map(len, filled)), len(filled)
    if count < 2:
        return None
    p = sum(map(sum, filled)) / n
    return sum((sum(group) - p * len(group)) ** 2 for group in filled) / n**2 * count / (count - 1)


def effective_n(groups: Collection[Sequence[bool]]) -> float:
    """How many independent attempts the groups are worth; never more than there are, never fewer than groups."""
    filled = [group for group in groups if group]
    n, count = sum(map(len, filled)), len(filled)
    variance = cluster_variance(filled)
    if n == count or not variance:
        return float(count)
    p = sum(map(sum, filled)) / n
    return min(float(n), max(float(count), p * (1 - p) / variance))


def clustered_wilson(groups: Collection[Sequence[bool]], confidence: float = 0.95) -> tuple[float, float] | None:
    """The interval of the success rate over all attempts, given by task.

    Where nothing is estimated about the tasks' spread (one attempt each, or all alike), it is Wilson's of as many
    attempts as tasks.
    """
    filled = [group for group in groups if group]
    n, count = sum(map(len, filled)), len(filled)
    if n == 0:
        return None
    p = sum(map(sum, filled)) / n
    size, tail = effective_n(filled), (1 + confidence) / 2
    estimated = n > count and bool(cluster_variance(filled))
    return wilson(p * size, size, t_quantile(tail, count - 1) if estimated else NormalDist().inv_cdf(tail))
