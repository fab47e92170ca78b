"""Student's t for whole degrees of freedom, by its closed form, so that an interval needs no numerical library.

With θ = atan(t / √df), P(|T| <= t) is a finite sum of powers of cos θ (Abramowitz and Stegun 26.7.3 and 26.7.4); the
quantile follows by bisection on θ, which is bounded where t is not.
"""

from __future__ import annotations

import math
from functools import lru_cache


def central_probability(t: float, df: int) -> float:
    """P(|T| <= t). ValueError for t < 0 or df < 1."""
    if not (t >= 0 and df >= 1):
        raise ValueError(f"no Student distribution: t = {t}, df = {df}")
    return _within(math.atan(t / math.sqrt(df)), df)


@lru_cache(maxsize=1024)
def t_quantile(p: float, df: int) -> float:
    """The value that T stays below with probability `p`, 0 < p < 1; e.g. 2.262157 for p = .975 and df = 9."""
    if not (0 < p < 1 and df >= 1):
        raise ValueError(f"no Student quantile: p = {p}, df = {df}")
    if p < 0.5:
        return -t_quantile(1 - p, df)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, df) < 2 * p - 1 else (low, middle)
    return math.tan((low + high) / 2) * math.sqrt(df)


def _within(angle: float, df: int) -> float:
    """P(|T| <= √df · tan(angle))."""
    square = math.cos(angle) ** 2
    odd = df % 2
    term = total = math.cos(angle) if odd else 1.0
    for k in range(2 + odd, df - 1, 2):
        term *= square * (k - 1) / k
        total += term
    if not odd:
        return math.sin(angle) * total
    return 2 / math.pi * (angle + (math.sin(angle) * total if df > 1 else 0.0))
