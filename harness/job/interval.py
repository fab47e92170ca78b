"""The Wilson score interval of a success rate, also when attempts cluster in tasks.

Wilson (1927): centre (p + z²/2n) / (1 + z²/n), half-width z/(1 + z²/n) · √(p(1-p)/n + z²/4n²). Several attempts of one
task are not independent; then n is replaced by the effective number p(1-p)/v of Korn and Graubard (1998), where v is
the cluster-robust variance of the mean, Σ_c(Σ_i s_i - p)² / n² · C/(C-1).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

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


def effective_n(groups: Collection[Sequence[bool]]) -> float:
    """How many independent attempts the groups are worth; never more than there are, never fewer than groups."""
    filled = [group for group in groups if group]
    n = sum(len(group) for group in filled)
    count = len(filled)
    if n == count or count < 2:
        return float(n if n == count else count)
    p = sum(sum(group) for group in filled) / n
    variance = sum((sum(group) - p * len(group)) ** 2 for group in filled) / n**2 * count / (count - 1)
    if variance == 0 or p in (0.0, 1.0):
        return float(count)
    return min(float(n), max(float(count), p * (1 - p) / variance))


def clustered_wilson(groups: Collection[Sequence[bool]], z: float = Z95) -> tuple[float, float] | None:
    """The interval of the success rate over all attempts, given by task."""
    n = sum(len(group) for group in groups)
    if n == 0:
        return None
    p = sum(sum(group) for group in groups) / n
    size = effective_n(groups)
    return wilson(p * size, size, z)
