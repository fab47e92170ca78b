"""Tests that may stop at any moment: e-values on tasks that changed, a rate against a threshold, and Wald's test.

A pair that changed is a worsening or an improvement; if nothing has changed, each is as likely. An e-value is the
wealth of a gambler who bets against that: it stays below 1/α with probability 1-α however long one looks (Ville), so
one may stop as soon as it does not. Run tasks in a random order, or the order decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import comb


def mixture_e_value(worse: int, changed: int) -> float:
    """The wealth after `worse` of `changed` pairs, of one who bets uniformly over all rates above a half.

    2ⁿ⁺¹ · ∫_{½}^{1} qᵏ(1-q)ⁿ⁻ᵏ dq, which is Σ_{i<=k} C(n+1, i) / ((n+1)·C(n, k)).
    """
    if not 0 <= worse <= changed:
        raise ValueError(f"no pairs: {worse} of {changed}")
    tail = sum(comb(changed + 1, i) for i in range(worse + 1))
    return tail / ((changed + 1) * comb(changed, worse))


@dataclass(slots=True)
class EarlyStop:
    """The wealth of one who stakes a fixed share on every pair: Π(1 + stake·(±1)).

    >>> watch = EarlyStop(alpha=0.05)
    >>> [watch.add(worse=True) for _ in range(8)].index(True)
    7
    """

    alpha: float = 0.05
    stake: float = 0.5
    wealth: float = 1.0
    pairs: int = 0

    def add(self, *, worse: bool) -> bool:
        """Count one more pair that changed, and say whether a regression is proven."""
        self.wealth *= 1 + (self.stake if worse else -self.stake)
        self.pairs += 1
        return self.proven

    @property
    def proven(self) -> bool:
        """Whether one may stop: a regression, at most `alpha` likely to be a false alarm."""
        return self.wealth >= 1 / self.alpha


_STAKES = tuple(number / 20 for number in range(1, 20))


class ThresholdBets:
    """Is the mean of values in [0, 1], one per task, at or above a threshold, or below it?

    Two gamblers: one is paid by values above the threshold m, Π(1 + s/m·(x - m)), the other by those below,
    Π(1 + s/(1-m)·(m - x)), each with his money spread evenly over nineteen stakes s from .05 to .95. If the mean is
    below m, the first one's wealth exceeds 1/α at any time with probability at most α (Ville; Waudby-Smith and Ramdas
    2024); if it is not, the second one's. Nothing is assumed of the values but that tasks come in random order, so that
    a value may well be the mean of a task's attempts. What is unknown is bet on as the worst for either gambler.
    """

    def __init__(self, threshold: float) -> None:
        if not 0 < threshold < 1:
            raise ValueError(f"a threshold lies between 0 and 1, not at {threshold}")
        self._threshold = threshold
        self._above = [1.0] * len(_STAKES)
        self._below = [1.0] * len(_STAKES)

    def add(self, low: float, high: float) -> None:
        """Take the next task, whose value lies between `low` and `high`; most often they are the same."""
        if not 0 <= low <= high <= 1:
            raise ValueError(f"no value in [0, 1]: {low} to {high}")
        m = self._threshold
        for number, stake in enumerate(_STAKES):
            self._above[number] *= 1 + stake / m * (low - m)
            self._below[number] *= 1 + stake / (1 - m) * (m - high)

    @property
    def above(self) -> float:
        """The evidence that the mean is at or above the threshold."""
        return sum(self._above) / len(_STAKES)

    @property
    def below(self) -> float:
        """The evidence that it is below."""
        return sum(self._below) / len(_STAKES)


@dataclass(frozen=True, slots=True)
class SequentialFloor:
    """Wald's probability ratio test of a success rate: is it `good` or only `bad` (bad < good)?

    `alpha` bounds the chance to reject a good one, `beta` the chance to accept a bad one.
    """

    good: float
    bad: float
    alpha: float = 0.05
    beta: float = 0.2

    @property
    def bounds(self) -> tuple[float, float]:
        """The log-likelihood ratio (bad over good) below which it is accepted, and above which it is rejected."""
        return math.log(self.beta / (1 - self.alpha)), math.log((1 - self.beta) / self.alpha)

    def log_ratio(self, successes: int, failures: int) -> float:
        """The evidence for `bad`."""
        return successes * math.log(self.bad / self.good) + failures * math.log((1 - self.bad) / (1 - self.good))

    def accepts(self, successes: int, failures: int) -> bool | None:
        """True good, False bad, None go on."""
        low, high = self.bounds
        ratio = self.log_ratio(successes, failures)
        return False if ratio >= high else True if ratio <= low else None
