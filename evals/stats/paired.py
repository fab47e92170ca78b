"""Two runs: the same tasks in both, which is the default, or independent ones.

On the same tasks the hard ones are hard for both, so their difference is known far better than either rate. All
differences are new minus base: below zero is worse.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from statistics import NormalDist, fmean, stdev

from harness.job.interval import wilson
from harness.job.student import central_probability, t_quantile

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class McNemar:
    """p-values of McNemar's exact test: two-sided, and one-sided for a regression; mid-p counts half of a tie."""

    two_sided: float
    mid: float
    worse: float
    worse_mid: float


def mcnemar(worse: int, better: int) -> McNemar:
    """From the tasks that passed before and fail now, and those that failed before and pass now."""
    if worse < 0 or better < 0:
        raise ValueError(f"no counts: {worse}, {better}")
    n = worse + better
    here = comb(n, worse) / 2**n
    fewer = sum(comb(n, i) for i in range(min(worse, better) + 1)) / 2**n
    at_least = sum(comb(n, i) for i in range(worse, n + 1)) / 2**n
    return McNemar(
        two_sided=min(1.0, 2 * fewer),
        mid=1 - here / 2 if worse == better else 2 * fewer - here,
        worse=at_least,
        worse_mid=at_least - here / 2,
    )


@dataclass(frozen=True, slots=True)
class SignFlip:
    """The permutation test: `worse` is P(S <= observed), `better` P(S >= observed), over `changed` tasks.

    Its smallest possible p is 2^-changed, so fewer than five changed tasks prove nothing at .05. `exact` is False where
    signs were drawn instead of counted.
    """

    worse: float
    better: float
    changed: int
    exact: bool = True

    @property
    def two_sided(self) -> float:
        """p that there is any difference."""
        return min(1.0, 2 * min(self.worse, self.better))


def sign_flip(differences: Sequence[int]) -> SignFlip:
    """Is the sum of whole differences, one per task, further from 0 than chance, if each is as likely with either sign?

    The sum of the positive ones takes its values as Π(1 + x^|d|) counts them over all 2^m signs; the product is held in
    one whole number, each coefficient in m+2 bits, which makes a factor one shift and one addition. No sampling: the
    same every time.
    """
    sizes = sorted(abs(d) for d in differences if d)
    unit = math.gcd(*sizes) if sizes else 1
    width = len(sizes) + 2
    ways = 1
    for size in sizes:
        ways += ways << (size // unit * width)
    positive = sum(d for d in differences if d > 0) // unit
    up_to, below = _coefficients(ways, width, positive), _coefficients(ways, width, positive - 1)
    every = 2 ** len(sizes)
    return SignFlip(worse=up_to / every, better=(every - below) / every, changed=len(sizes))


_MAX_BITS = 1 << 25
"""Of the number that holds all sums; a larger one would take seconds."""


def sign_flip_graded(differences: Sequence[float], *, draws: int = 20_000, seed: int = 0) -> SignFlip:
    """The same test for differences that are not whole, one per task, such as those of mean rewards.

    Where they are fractions of small denominators they are counted in their common unit, exactly. Otherwise signs are
    drawn, the same ones for the same seed, and the observed ones count as one more draw.
    """
    whole = _in_one_unit(differences)
    return sign_flip(whole) if whole is not None else _sampled(differences, draws, seed)


def _in_one_unit(differences: Sequence[float]) -> list[int] | None:
    """Whole multiples of one unit; None where there is none, or where there would be too many to count."""
    fractions = [Fraction(d).limit_denominator(1000) for d in differences]
    if any(abs(float(f) - d) > 1e-9 for f, d in zip(fractions, differences, strict=True)):
        return None
    unit = math.lcm(*(f.denominator for f in fractions))
    whole = [int(f * unit) for f in fractions]
    sizes = [abs(d) for d in whole if d]
    common = math.gcd(*sizes) if sizes else 1
    return whole if sum(sizes) // common * (len(sizes) + 2) <= _MAX_BITS else None


def _sampled(differences: Sequence[float], draws: int, seed: int) -> SignFlip:
    sizes = [abs(d) for d in differences if d]
    tables = [_signed_sums(sizes[start : start + 8]) for start in range(0, len(sizes), 8)]
    seen = math.fsum(differences)
    slack = 1e-9 * math.fsum(sizes)
    draw = random.Random(seed)  # noqa: S311
    worse = better = 1
    for _ in range(draws):
        total = sum(table[byte] for table, byte in zip(tables, draw.randbytes(len(tables)), strict=True))
        worse += total <= seen + slack
        better += total >= seen - slack
    return SignFlip(worse / (draws + 1), better / (draws + 1), len(sizes), exact=False)


def _signed_sums(sizes: Sequence[float]) -> list[float]:
    """The sum of up to eight sizes for each of the 256 choices of signs; spare bits change nothing."""
    return [sum(size if byte >> bit & 1 else -size for bit, size in enumerate(sizes)) for byte in range(256)]


def _coefficients(ways: int, width: int, degree: int) -> int:
    """The sum of the coefficients up to `degree`: digits in base 2^width add up to the number modulo 2^width - 1."""
    return (ways & ((1 << (degree + 1) * width) - 1)) % ((1 << width) - 1) if degree >= 0 else 0


def whole_differences(pairs: Sequence[tuple[tuple[int, int], tuple[int, int]]]) -> list[int]:
    """Differences of success rates, as whole numbers in one common unit.

    Each pair is (successes, attempts) of the base and of the new run.
    """
    unit = math.lcm(*(n for pair in pairs for _, n in pair))
    return [new * unit // n_new - base * unit // n_base for (base, n_base), (new, n_new) in pairs]


def newcombe_paired(both: int, worse: int, better: int, neither: int, confidence: float = 0.95) -> Interval | None:
    """Newcombe's (1998) method 10, for one attempt of each task in both runs; None without tasks."""
    n = both + worse + better + neither
    if n == 0:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    base, new = both + worse, both + better
    spread = math.sqrt(base * (n - base) * new * (n - new))
    agreement = float(both * neither - worse * better)
    if agreement > 0:
        agreement = max(0.0, agreement - n / 2)
    phi = agreement / spread if spread else 0.0
    return _square_and_add((new, n), (base, n), phi, z)


def newcombe_independent(new: tuple[int, int], base: tuple[int, int], confidence: float = 0.95) -> Interval | None:
    """Newcombe's (1998) hybrid score interval for runs on different tasks, each as (successes, n)."""
    if new[1] == 0 or base[1] == 0:
        return None
    return _square_and_add(new, base, 0.0, NormalDist().inv_cdf((1 + confidence) / 2))


def _square_and_add(new: tuple[int, int], base: tuple[int, int], phi: float, z: float) -> Interval:
    """Both rates' Wilson intervals, their halves added like sides of a triangle."""
    p1, p0 = new[0] / new[1], base[0] / base[1]
    (low1, high1), (low0, high0) = wilson(*new, z) or (0, 1), wilson(*base, z) or (0, 1)
    down, up = (p1 - low1, high0 - p0), (high1 - p1, p0 - low0)
    lower, upper = (math.sqrt(max(0.0, a * a - 2 * phi * a * b + b * b)) for a, b in (down, up))
    return p1 - p0 - lower, p1 - p0 + upper


@dataclass(frozen=True, slots=True)
class PairedT:
    """Student's t on differences, one per task. None where the spread is unknown: one task, or all alike."""

    mean: float
    error: float | None
    t: float | None
    p: float | None
    interval: Interval | None


def paired_t(differences: Sequence[float], confidence: float = 0.95) -> PairedT:
    """The mean difference, its standard error, and whether it is 0 (two-sided). ValueError for no differences."""
    count = len(differences)
    if count == 0:
        raise ValueError("no differences")
    mean = fmean(differences)
    if count == 1:
        return PairedT(mean, None, None, None, None)
    error = stdev(differences) / math.sqrt(count)
    half = t_quantile((1 + confidence) / 2, count - 1) * error
    if error == 0:
        return PairedT(mean, 0.0, None, None, None)
    t = mean / error
    return PairedT(mean, error, t, 1 - central_probability(abs(t), count - 1), (mean - half, mean + half))


def bootstrap_interval(
    values: Sequence[float], confidence: float = 0.95, *, resamples: int = 4000, seed: int = 0
) -> Interval | None:
    """The percentile interval of the mean over tasks, drawn again with replacement; optimistic for few tasks.

    The same seed gives the same interval. None for fewer than two values.
    """
    if len(values) < 2:
        return None
    draw = random.Random(seed)  # noqa: S311
    means = sorted(fmean(draw.choices(values, k=len(values))) for _ in range(resamples))
    cut = int((1 - confidence) / 2 * resamples)
    return means[cut], means[-1 - cut]


def fisher_exact(first: tuple[int, int], second: tuple[int, int]) -> float:
    """The two-sided p of Fisher's exact test that two shares (successes, n) are one."""
    (a, n1), (b, n2) = first, second
    drawn = a + b
    ways = [comb(n1, x) * comb(n2, drawn - x) for x in range(max(0, drawn - n2), min(n1, drawn) + 1)]
    seen = comb(n1, a) * comb(n2, b)
    return sum(way for way in ways if way <= seen) / sum(ways)


def score_test(new: tuple[int, int], base: tuple[int, int]) -> tuple[float, float] | None:
    """z and the two-sided p of the pooled score test for independent runs, with Campbell's (2007) factor (N-1)/N.

    None where nothing varies.
    """
    (x1, n1), (x0, n0) = new, base
    pooled = (x1 + x0) / (n1 + n0)
    n = n1 + n0
    error = math.sqrt(pooled * (1 - pooled) * (1 / n1 + 1 / n0) * n / max(1, n - 1))
    if error == 0:
        return None
    z = (x1 / n1 - x0 / n0) / error
    return z, 2 * NormalDist().cdf(-abs(z))
