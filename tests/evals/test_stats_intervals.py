"""Intervals of one run, against tables, scipy, the exact coverage of the binomial, and simulated tasks."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import product
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from evals.stats.intervals import (
    agresti_coull,
    clopper_pearson,
    cluster_error,
    clustered_t,
    clustered_wilson,
    design_effect,
    effective_n,
    fixed_tasks_error,
    intraclass_correlation,
    jeffreys,
    t_interval,
    wilson,
)

TABLE = """
0/10      0 .277533        0 .308497        0 .320887        0 .217196
1/10      .017876 .404150  .002529 .445016  0 .425968        .011012 .381315
5/10      .236593 .763407  .187086 .812914  .236593 .763407  .223529 .776471
7/10      .396778 .892209  .347547 .933260  .392325 .896662  .394182 .907305
10/10     .722467 1        .691503 1        .679113 1        .782804 1
1/1       .206549 1        .025 1           .167499 1        .146746 1
3/20      .052369 .360419  .032071 .378927  .043939 .368849  .044131 .348578
65/90     .622048 .804203  .617811 .811496  .621613 .804638  .623736 .806677
72/100    .625120 .798603  .621333 .805206  .624753 .798970  .626652 .800823
81/100    .722212 .874852  .719302 .881557  .721386 .875678  .724903 .877460
95/100    .888250 .978456  .887165 .983568  .885382 .981324  .893900 .980668
999/1000  .994357 .999823  .994441 .999975  .993759 1        .995336 .999892
"""
METHODS: tuple[Callable[..., Any], ...] = (wilson, clopper_pearson, agresti_coull, jeffreys)
CASES = [
    (method, *map(int, row.split()[0].split("/")), float(row.split()[1 + 2 * i]), float(row.split()[2 + 2 * i]))
    for row in TABLE.strip().splitlines()
    for i, method in enumerate(METHODS)
]


@pytest.mark.parametrize(("method", "k", "n", "low", "high"), CASES, ids=lambda case: getattr(case, "__name__", None))
def test_an_interval_has_its_reference_value(
    method: Callable[[int, int], Any], k: int, n: int, low: float, high: float
) -> None:
    assert method(k, n) == pytest.approx((low, high), abs=6e-7)


@pytest.mark.parametrize(
    ("k", "n", "z", "low", "high"),
    [
        (65, 90, 1.96, 0.6220457832888489, 0.8042044085237374),
        (7, 10, 1.96, 0.39677321997956516, 0.892210712513788),
        (0, 10, 1.96, 0.0, 0.2775401687666165),
        (65, 90, 1.959963984540054, 0.6220477250, 0.8042031081),
    ],
)
def test_wilson_with_a_given_z(k: int, n: int, z: float, low: float, high: float) -> None:
    assert wilson(k, n, z) == pytest.approx((low, high), abs=5e-11)


@pytest.mark.case("F5")
@pytest.mark.parametrize("method", METHODS)
def test_all_and_nothing_are_closed_exactly_and_never_of_no_width(method: Callable[[int, int], Any]) -> None:
    for n in (1, 3, 10, 90, 5000):
        low, high = method(n, n)
        assert high == 1.0 > low
        low, high = method(0, n)
        assert low == 0.0 < high


@pytest.mark.case("F6")
@pytest.mark.parametrize("method", METHODS)
def test_nothing_measured_is_unknown_and_nonsense_is_refused(method: Callable[[int, int], Any]) -> None:
    assert method(0, 0) is None
    for k, n in ((11, 10), (-1, 10), (5, -10)):
        with pytest.raises(ValueError, match="no success rate"):
            method(k, n)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_and_clopper_pearson_agree_with_scipy(case: tuple[int, int]) -> None:
    k, n = case
    for method, name in ((wilson, "wilson"), (clopper_pearson, "exact")):
        reference = binomtest(k, n).proportion_ci(method=name)
        assert method(k, n) == pytest.approx((reference.low, reference.high), abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
@given(case=st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_mirrors_holds_its_rate_and_rises_with_it(
    method: Callable[[int, int], Any], case: tuple[int, int]
) -> None:
    k, n = case
    low, high = method(k, n)
    assert 0 <= low <= k / n <= high <= 1
    assert method(n - k, n) == pytest.approx((1 - high, 1 - low), abs=1e-9)
    if k < n:
        assert all(after >= before for before, after in zip((low, high), method(k + 1, n), strict=True))


def coverage(n: int, p: float) -> float:
    held = [low <= p <= high for low, high in (wilson(k, n) or (0, 1) for k in range(n + 1))]
    return math.fsum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1) if held[k])


@pytest.mark.parametrize(
    ("n", "p", "expected"),
    [
        *zip([10] * 4, (0.05, 0.3, 0.5, 0.9), (0.9139, 0.9244, 0.9785, 0.9298), strict=True),
        *zip([50] * 4, (0.05, 0.3, 0.5, 0.9), (0.9622, 0.9567, 0.9351, 0.9703), strict=True),
        *zip([200] * 4, (0.05, 0.3, 0.5, 0.9), (0.9672, 0.9466, 0.9440, 0.9561), strict=True),
    ],
)
def test_the_exact_coverage_of_wilson(n: int, p: float, expected: float) -> None:
    assert coverage(n, p) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(("n", "mean", "minimum"), [(10, 0.9555, 0.8954), (50, 0.9521, 0.9216), (200, 0.9507, 0.9331)])
def test_the_mean_and_the_minimum_of_the_coverage_of_wilson(n: int, mean: float, minimum: float) -> None:
    bounds = [wilson(k, n) or (0, 1) for k in range(n + 1)]
    found = []
    for thousandths in range(20, 981):
        p = thousandths / 1000
        inside = [k for k, (low, high) in enumerate(bounds) if low <= p <= high]
        found.append(float(binom.cdf(inside[-1], n, p) - binom.cdf(inside[0] - 1, n, p)))
    assert (fmean(found), min(found)) == pytest.approx((mean, minimum), abs=5e-5)


GROUPS = [[1.0] * k + [0.0] * (4 - k) for k in (4, 4, 3, 2, 2, 1, 0, 0)]
"""Eight tasks of four attempts."""


def test_the_worked_example_of_eight_tasks_of_four_attempts() -> None:
    wins = [[bool(score) for score in group] for group in GROUPS]
    means = [fmean(group) for group in GROUPS]
    assert math.sqrt(0.5 * 0.5 / 32) == pytest.approx(0.0883883, abs=5e-8)
    assert cluster_error(GROUPS, corrected=False) == pytest.approx(0.1325825215, abs=5e-11)
    assert cluster_error(GROUPS) == pytest.approx(0.1417366774, abs=5e-11)
    assert cluster_error(GROUPS) == pytest.approx(stdev(means) / math.sqrt(8), abs=1e-15)
    correlation = intraclass_correlation(GROUPS)
    assert correlation == pytest.approx(0.4600550964, abs=5e-11)
    assert correlation is not None
    assert design_effect(correlation, 4) == pytest.approx(2.3801652893, abs=5e-11)
    assert effective_n(wins) == pytest.approx(12.4444, abs=5e-5)
    assert t_interval(means) == pytest.approx((0.164846, 0.835154), abs=5e-7)
    assert clustered_wilson(wins) == pytest.approx((0.221604, 0.778396), abs=5e-7)
    assert wilson(0.5 * effective_n(wins), effective_n(wins)) == pytest.approx((0.257164, 0.742836), abs=6e-7)
    assert wilson(16, 32) == pytest.approx((0.336309, 0.663691), abs=5e-7)


def test_on_exactly_these_tasks_only_the_noise_between_attempts_counts() -> None:
    assert fixed_tasks_error([(4, 4), (0, 4)]) == 0.0
    assert fixed_tasks_error([(2, 4)]) == pytest.approx(math.sqrt(0.25 / 3))
    assert fixed_tasks_error([(1, 1), (2, 4)]) is None
    on_these = fixed_tasks_error([(int(sum(group)), 4) for group in GROUPS])
    on_others = cluster_error(GROUPS)
    assert on_these is not None
    assert on_others is not None
    assert on_these < on_others


def test_too_few_tasks_have_no_spread() -> None:
    assert t_interval([0.5]) is None
    assert cluster_error([[1.0, 0.0]]) is None
    assert intraclass_correlation([[1.0, 0.0]]) is None
    assert intraclass_correlation([[1.0], [0.0]]) is None
    assert intraclass_correlation([[1.0, 1.0], [1.0, 1.0]]) is None


@pytest.mark.slow
def test_the_clustered_interval_covers_what_it_says() -> None:
    """Tasks drawn from Beta, attempts within them: 95 % on average, never far below, down to eight tasks."""
    draw = random.Random(7)
    found = []
    for tasks, attempts, (a, b) in product((8, 20, 50), (3, 5), ((0.75, 0.25), (0.5, 0.5), (2, 2))):
        held = 0
        for _ in range(700):
            rates = [draw.betavariate(a, b) for _ in range(tasks)]
            low, high = clustered_wilson([[draw.random() < p for _ in range(attempts)] for p in rates]) or (0, 1)
            held += low <= a / (a + b) <= high
        found.append(held / 700)
    assert 0.93 <= fmean(found) <= 0.97
    assert min(found) >= 0.92


def test_a_clustered_mean_has_its_interval_around_itself() -> None:
    even = [[1.0, 0.5], [0.25, 0.75], [0.0, 0.5]]
    assert clustered_t(even) == pytest.approx(t_interval([0.75, 0.5, 0.25]))
    low, high = clustered_t([[1.0, 1.0, 1.0, 1.0], [0.0], [0.5]]) or (0.0, 0.0)
    assert (low + high) / 2 == pytest.approx(0.75), "the mean of all six attempts, not 0.5, that of the three tasks"
    assert clustered_t([[1.0, 0.0]]) is None
