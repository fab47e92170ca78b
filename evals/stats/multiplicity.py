"""Many tests at once: adjusted p-values, in the order given. Of 12 true nulls, 46 % of the time one is below .05."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down: reject where it is <= α, and the chance of any false alarm is <= α. For what gates."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's step-up: reject where it is <= q, and of those rejected a share q is false."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__, reverse=True)
    adjusted, lowest = [0.0] * len(p_values), 1.0
    for passed, index in enumerate(order):
        lowest = min(lowest, p_values[index] * len(p_values) / (len(p_values) - passed))
        adjusted[index] = lowest
    return adjusted
