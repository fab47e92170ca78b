"""How many attempts each prompt gets, when the success of each is predicted before anything is sampled.

VIP (arXiv 2602.01601) gives attempts to where they lower the variance of the gradient most. With p the predicted
success and a = p (1 - p), a prompt with n attempts contributes, up to a factor that all share,

    RLOO      a / (n - 1)
    Dr.GRPO   a (n - 1) / n^2

The sum is minimised under sum(n) = budget and low <= n <= high: continuously by bisection on the multiplier lambda,
with the closed form of n(lambda) for each estimator, then rounded by giving what is left to the largest decrease. Both
are convex (Dr.GRPO's from n = 3), which makes the rounding optimal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

Estimator = Literal["rloo", "dr_grpo"]

_LARGEST = 500.0
_BISECTIONS = 60


def uniform(prompts: int, budget: int) -> list[int]:
    """The same number for every prompt; what does not divide goes to the first ones."""
    each, more = divmod(budget, prompts)
    return [each + (number < more) for number in range(prompts)]


def variance(success: Sequence[float], attempts: Sequence[float], estimator: Estimator = "rloo") -> float:
    """The gradient's variance under an allocation, up to the factor that all prompts share."""
    of = _VARIANCE[estimator]
    return math.fsum(p * (1 - p) * of(n) for p, n in zip(success, attempts, strict=True))


def vip(
    success: Sequence[float], budget: int, *, low: int = 3, high: int | None = None, estimator: Estimator = "rloo"
) -> list[int]:
    """Attempts of each prompt, `budget` in all.

    Args:
        success: predicted for each prompt, within [0, 1]. One that is sure to fail or to pass gets `low`: it has to be
            sampled now and then, or its prediction would never change.
        low: attempts that every prompt gets; at least 2, at least 3 for Dr.GRPO.
        high: attempts that none exceeds; None is the budget.

    Raises:
        ValueError: no allocation lies within the bounds.
    """
    ideal = continuous(success, budget, low=low, high=high, estimator=estimator)
    limit = budget if high is None else high
    found = [min(max(math.floor(n + 1e-9), low), limit) for n in ideal]
    of = _VARIANCE[estimator]
    for _ in range(budget - sum(found)):
        # Among equals the one with fewest attempts, so that prompts that are alike get alike.
        _, _, best = max(
            (p * (1 - p) * (of(n) - of(n + 1)), -n, -number)
            for number, (p, n) in enumerate(zip(success, found, strict=True))
            if n < limit
        )
        found[-best] += 1
    return found


def continuous(
    success: Sequence[float], budget: float, *, low: float = 3, high: float | None = None, estimator: Estimator = "rloo"
) -> list[float]:
    """The allocation before rounding. Raises ValueError where no allocation lies within the bounds."""
    limit = float(budget if high is None else high)
    least = 2 if estimator == "rloo" else 3
    if low < least:
        raise ValueError(f"{estimator} needs at least {least} attempts of each prompt, not {low:g}")
    if not low * len(success) <= budget <= limit * len(success):
        raise ValueError(
            f"{len(success)} prompts with {low:g} to {limit:g} attempts each take no budget of {budget:g} attempts"
        )
    spread = [p * (1 - p) for p in success]
    if not any(spread):
        return [budget / len(success)] * len(success)
    at = _ATTEMPTS[estimator]

    # In logarithms: a multiplier may be too small to be a number where a success is all but certain or impossible.
    logs = [math.log(a) if a else -math.inf for a in spread]

    def allocated(log_multiplier: float) -> list[float]:
        return [min(max(at(math.exp(min(a - log_multiplier, _LARGEST))), low), limit) for a in logs]

    few, many = max(logs), min(a for a in logs if a > -math.inf) - 3 * math.log(limit + 1)
    for _ in range(_BISECTIONS):
        middle = (few + many) / 2
        few, many = (middle, many) if sum(allocated(middle)) < budget else (few, middle)
    return allocated(many)


def _rloo_attempts(c: float) -> float:
    """n at which -dVar/dn equals lambda, c = a / lambda:  1 / (n - 1)^2 = 1 / c."""
    return 1 + math.sqrt(c)


def _dr_grpo_attempts(c: float) -> float:
    """The same with (n - 2) / n^3 = 1 / c: the largest root of n^3 - c n + 2 c, which exists from c = 27, n = 3."""
    if c <= 27:
        return 3.0
    return 2 * math.sqrt(c / 3) * math.cos(math.acos(-3 * math.sqrt(3 / c)) / 3)


_VARIANCE: dict[Estimator, Callable[[float], float]] = {
    "rloo": lambda n: 1 / (n - 1),
    "dr_grpo": lambda n: (n - 1) / n**2,
}
_ATTEMPTS: dict[Estimator, Callable[[float], float]] = {"rloo": _rloo_attempts, "dr_grpo": _dr_grpo_attempts}
