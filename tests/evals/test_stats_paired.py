"""Comparing two runs: worked numbers, scipy as an independent oracle, and symmetry."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evals.stats.paired import (
    bootstrap_interval,
    fisher_exact,
    mcnemar,
    newcombe_independent,
    newcombe_paired,
    paired_t,
    score_test,
    sign_flip,
    sign_flip_graded,
    whole_differences,
)


@pytest.mark.parametrize(
    ("worse", "better", "two_sided", "mid", "one_sided", "one_mid"),
    [
        (10, 3, 0.09228516, 0.05737305, 0.04614258, 0.02868652),
        (8, 2, 0.10937500, 0.06542969, 0.05468750, 0.03271484),
        (12, 4, 0.07681274, 0.04904175, 0.03840637, 0.02452087),
        (25, 10, 0.01667385, 0.01133098, 0.00833692, 0.00566549),
        (15, 3, 0.00753784, 0.00442505, 0.00376892, 0.00221252),
        (6, 16, 0.05247879, 0.03468966, 0.99154973, None),
        (5, 5, 1, 0.87695312, 0.62304688, None),
        (0, 6, 0.03125, 0.015625, 1, None),
    ],
)
def test_mcnemar_has_its_reference_values(
    worse: int, better: int, two_sided: float, mid: float, one_sided: float, one_mid: float | None
) -> None:
    found = mcnemar(worse, better)
    assert (found.two_sided, found.mid, found.worse) == pytest.approx((two_sided, mid, one_sided), abs=5.1e-9)
    if one_mid is not None:
        assert found.worse_mid == pytest.approx(one_mid, abs=5.1e-9)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_binomial_test_of_scipy_and_the_sign_flip_of_single_attempts(worse: int, better: int) -> None:
    found = mcnemar(worse, better)
    if worse + better:
        assert found.two_sided == pytest.approx(stats.binomtest(worse, worse + better).pvalue)
        assert found.worse == pytest.approx(stats.binomtest(worse, worse + better, alternative="greater").pvalue)
    flipped = sign_flip([-1] * worse + [1] * better + [0] * 5)
    assert flipped.worse == pytest.approx(found.worse)
    assert flipped.two_sided == pytest.approx(found.two_sided)


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([-1] * 10 + [1] * 3, 0.046142578125),
        ([0, -1, -1, 0, -2, 0, 0, 0], 0.125),
        ([-3, -2, -2, -1, -1, 1, 2, 0, 0, -1, 3, -2], 0.2158203125),
        ([-1] * 5, 0.03125),
        ([-1] * 4, 0.0625),
        ([], 1),
        ([0, 0], 1),
    ],
)
def test_the_sign_flip_test_has_its_exact_reference_values(differences: list[int], p: float) -> None:
    assert sign_flip(differences).worse == p


def test_scipy_draws_the_same_distribution() -> None:
    differences = [0, -1, -1, 0, -2, 0, 0, 0]
    found = stats.permutation_test(
        (differences,), lambda d: d.sum(), permutation_type="samples", alternative="less", n_resamples=10_000
    )
    assert sign_flip(differences).worse == pytest.approx(found.pvalue)


@given(st.lists(st.integers(-6, 6), max_size=10))
def test_the_sign_flip_test_is_the_share_of_all_signs(differences: list[int]) -> None:
    sums = Counter(
        sum(s * abs(d) for s, d in zip(signs, differences, strict=True))
        for signs in product((-1, 1), repeat=len(differences))
    )
    observed, every = sum(differences), sum(sums.values())
    found = sign_flip(differences)
    assert found.worse == sum(n for value, n in sums.items() if value <= observed) / every
    assert found.better == sum(n for value, n in sums.items() if value >= observed) / every
    assert found.changed == sum(d != 0 for d in differences)


@given(st.lists(st.integers(-20, 20), max_size=60), st.integers(1, 9))
def test_the_sign_flip_test_mirrors_and_knows_no_unit(differences: list[int], unit: int) -> None:
    found = sign_flip(differences)
    assert sign_flip([-d for d in differences]).worse == found.better
    assert sign_flip([unit * d for d in differences]) == found
    assert sign_flip([*differences, 0]) == found
    assert 2.0**-found.changed <= found.worse <= 1
    assert found.worse + found.better >= 1


def test_thousands_of_attempts_are_tested_exactly() -> None:
    draw = random.Random(1)
    differences = [draw.randint(-5, 5) for _ in range(500)]
    normal = stats.norm.cdf((sum(differences) + 1) / sum(d * d for d in differences) ** 0.5)
    assert sign_flip(differences).worse == pytest.approx(normal, abs=2e-3)


def test_unequal_attempts_are_compared_in_their_common_unit() -> None:
    assert whole_differences([((2, 3), (1, 2)), ((1, 2), (1, 2)), ((0, 3), (3, 3))]) == [-1, 0, 6]
    assert whole_differences([]) == []


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        ((36, 12, 2, 0), -0.340428, -0.056930),
        ((53, 10, 3, 34), -0.140297, 0.001804),
        ((60, 12, 4, 24), -0.158452, -0.000580),
        ((43, 1, 0, 9), -0.087237, 0.045418),
    ],
)
def test_newcombes_paired_interval(counts: tuple[int, int, int, int], low: float, high: float) -> None:
    assert newcombe_paired(*counts) == pytest.approx((low, high), abs=5.1e-7)


@given(*(st.integers(0, 40) for _ in range(4)))
def test_newcombes_paired_interval_mirrors_and_holds_the_difference(a: int, b: int, c: int, d: int) -> None:
    found = newcombe_paired(a, b, c, d)
    if found is None:
        assert a + b + c + d == 0
        return
    low, high = found
    assert -1 - 1e-12 <= low <= (c - b) / (a + b + c + d) + 1e-12
    assert low <= high <= 1 + 1e-12
    assert newcombe_paired(a, c, b, d) == pytest.approx((-high, -low), abs=1e-12)


@pytest.mark.parametrize(
    ("new", "base", "low", "high"),
    [
        ((56, 70), (48, 80), 0.052431, 0.333873),
        ((9, 10), (3, 10), 0.170523, 0.809018),
        ((6, 7), (2, 7), 0.058228, 0.806250),
        ((10, 10), (0, 20), 0.679086, 1),
        ((10, 10), (0, 10), 0.607509, 1),
        ((5, 56), (0, 29), -0.038137, 0.192560),
        ((65, 90), (72, 100), -0.125110, 0.127614),
        ((72, 100), (81, 100), -0.204927, 0.027836),
    ],
)
def test_newcombes_independent_interval(new: tuple[int, int], base: tuple[int, int], low: float, high: float) -> None:
    assert newcombe_independent(new, base) == pytest.approx((low, high), abs=5.1e-7)


def test_two_independent_runs() -> None:
    assert score_test((72, 100), (81, 100)) == pytest.approx((-1.497181, 0.134346), abs=5.1e-7)
    assert score_test((10, 10), (10, 10)) is None
    assert fisher_exact((72, 100), (81, 100)) == pytest.approx(0.181801, abs=5.1e-7)
    assert newcombe_independent((0, 0), (1, 2)) is None


@given(*(st.integers(1, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))) for _ in range(2)))
def test_fisher_agrees_with_scipy(first: tuple[int, int], second: tuple[int, int]) -> None:
    table = [[first[0], first[1] - first[0]], [second[0], second[1] - second[0]]]
    assert fisher_exact(first, second) == pytest.approx(stats.fisher_exact(table).pvalue)


A = [1, 1, 0.75, 0.5, 0.5, 0.25, 0, 0]
B = [1, 0.75, 0.5, 0.5, 0, 0.25, 0, 0]


def test_the_paired_t_test() -> None:
    found = paired_t([b - a for a, b in zip(A, B, strict=True)])
    assert (found.mean, found.error) == pytest.approx((-0.125, 0.0668153105), abs=5e-11)
    assert (found.t, found.p) == pytest.approx((-1.8708286934, 0.1035517103), abs=5e-11)
    assert found.interval == pytest.approx((-0.282993, 0.032993), abs=5e-7)
    oracle = stats.ttest_rel(B, A)
    assert (found.t, found.p) == pytest.approx((oracle.statistic, oracle.pvalue))
    assert stats.pearsonr(A, B).statistic == pytest.approx(0.8838834765)
    unpaired = (stats.tvar(A) / 8 + stats.tvar(B) / 8) ** 0.5
    assert unpaired == pytest.approx(0.1947984306)


def test_a_spread_that_is_not_known_gives_no_interval() -> None:
    assert paired_t([0.5]).interval is None
    assert paired_t([0.5, 0.5]).interval is None, "no spread is an unknown one, not a certain value"
    assert paired_t([0.5, 0.5]).p is None
    assert bootstrap_interval([0.5]) is None
    with pytest.raises(ValueError, match="no differences"):
        paired_t([])


def test_the_bootstrap_is_repeatable_and_near_the_normal_interval() -> None:
    values = [((7 * i) % 11 - 5) / 10 for i in range(200)]
    low, high = bootstrap_interval(values) or (0, 0)
    assert (low, high) == bootstrap_interval(values)
    expected = paired_t(values).interval
    assert (low, high) == pytest.approx(expected, abs=0.005)


def enumerated(differences: list[float]) -> tuple[float, float]:
    """P(S <= observed) and P(S >= observed) over all signs, one by one."""
    sizes, seen = [abs(d) for d in differences if d], math.fsum(differences)
    sums = [
        math.fsum(a * b for a, b in zip(sizes, signs, strict=True)) for signs in product((1, -1), repeat=len(sizes))
    ]
    return sum(s <= seen + 1e-9 for s in sums) / len(sums), sum(s >= seen - 1e-9 for s in sums) / len(sums)


@given(st.lists(st.integers(-60, 60), max_size=9))
def test_graded_differences_are_tested_exactly_in_their_common_unit(sixtieths: list[int]) -> None:
    differences = [n / 60 for n in sixtieths]
    found = sign_flip_graded(differences)
    assert found.exact
    assert (found.worse, found.better) == pytest.approx(enumerated(differences))


@settings(max_examples=6, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9))
def test_differences_without_a_unit_are_sampled_near_the_exact_value_and_always_the_same(values: list[float]) -> None:
    differences = [value * math.pi / 4 for value in values]
    found, (worse, better) = sign_flip_graded(differences), enumerated(differences)
    assert (found.worse, found.better) == pytest.approx((worse, better), abs=0.02)
    assert found == sign_flip_graded(differences)


def test_whole_graded_differences_are_the_whole_test() -> None:
    assert sign_flip_graded([0.0, -1.0, -1.0, 0.0, -2.0]) == sign_flip([0, -1, -1, 0, -2])
    assert sign_flip_graded([]) == sign_flip([])


def test_many_graded_differences_are_tested_in_a_moment() -> None:
    draw = random.Random(1)
    differences = [draw.uniform(-1, 0.9) for _ in range(500)]
    started = time.process_time()
    found = sign_flip_graded(differences)
    assert time.process_time() - started < 5
    assert not found.exact
    assert 1 / 20_001 <= found.worse < 0.2
