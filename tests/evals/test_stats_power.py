"""What can be detected: the tables of the power calculations, and scipy's normal distribution as an oracle."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from evals.stats.power import (
    attempts_needed,
    mde,
    mde_of_a_drop,
    mde_of_changes,
    paired_mde,
    quantile,
    tasks_needed,
    within_variance,
)

TABLE = [
    (20, 0.309903, 0.442970, 0.423267, 0.373001, 0.420034),
    (50, 0.196000, 0.280159, 0.260416, 0.228445, 0.258457),
    (90, 0.146090, 0.208818, 0.189134, 0.165999, 0.188025),
    (100, 0.138593, 0.198102, 0.178596, 0.156786, 0.177608),
    (200, 0.098000, 0.140079, 0.122733, 0.107949, 0.122299),
    (500, 0.061981, 0.088594, 0.075332, 0.066432, 0.075202),
    (1000, 0.043827, 0.062645, 0.052386, 0.046273, 0.052337),
]


def arcsine_drop(n: int) -> float:
    """The drop from .8 found with 80 % power by the variance-stabilised approximation: an oracle of another kind."""
    angle = math.asin(math.sqrt(0.8)) - (norm.ppf(0.975) + norm.ppf(0.8)) / math.sqrt(2 * n)
    return float(0.8 - math.sin(angle) ** 2)


@pytest.mark.parametrize(("n", "threshold", "powered", "two_sided", "one_sided", "arcsine"), TABLE)
def test_the_table_of_detectable_effects(
    n: int, threshold: float, powered: float, two_sided: float, one_sided: float, arcsine: float
) -> None:
    assert mde(n, power=0.5, z=1.96) == pytest.approx(threshold, abs=5.1e-7)
    assert mde(n) == pytest.approx(powered, abs=5.1e-7)
    assert mde_of_a_drop(n, 0.8) == pytest.approx(two_sided, abs=5.1e-7)
    assert mde_of_a_drop(n, 0.8, sides=1) == pytest.approx(one_sided, abs=5.1e-7)
    assert arcsine_drop(n) == pytest.approx(arcsine, abs=2e-6)
    assert mde_of_a_drop(n, 0.8) == pytest.approx(arcsine_drop(n), rel=0.01)


def test_power_one_half_is_the_threshold_of_significance() -> None:
    assert mde(100, power=0.5, z=1.96) == pytest.approx(0.13859292911256332, abs=1e-15)
    assert mde(100) / mde(100, power=0.5) == pytest.approx(2.801585 / 1.959964, abs=5e-7)
    assert mde(100) / mde(100, power=0.5) == pytest.approx(1.4294, abs=5e-5)


@pytest.mark.parametrize(
    ("p", "value"), [(0.975, 1.9599639845), (0.95, 1.6448536270), (0.8, 0.8416212336), (0.9, 1.2815515655)]
)
def test_the_quantiles_of_the_normal_distribution(p: float, value: float) -> None:
    assert quantile(p) == pytest.approx(value, abs=5e-11)
    assert quantile(p) == pytest.approx(norm.ppf(p), abs=1e-9)


@pytest.mark.parametrize(
    ("p", "q", "n"),
    [(0.8, 0.75, 1093.74), (0.8, 0.7, 293.15), (0.5, 0.4, 387.34), (0.7, 0.65, 1376.30), (0.9, 0.85, 685.60)],
)
def test_how_many_tasks_tell_two_rates_apart(p: float, q: float, n: float) -> None:
    assert tasks_needed(p, q) == pytest.approx(n, abs=0.006)
    assert mde_of_a_drop(round(n), p) == pytest.approx(p - q, rel=2e-3)


PAIRED = {
    50: (15.2, 10.8, 8.8, 6.8, 5.4, 21.5),
    100: (10.8, 7.6, 6.2, 4.8, 3.8, 15.2),
    135: (9.3, 6.6, 5.4, 4.1, 3.3, 13.1),
    200: (7.6, 5.4, 4.4, 3.4, 2.7, 10.8),
}


@pytest.mark.parametrize("tasks", PAIRED)
def test_the_table_of_paired_detectable_drops(tasks: int) -> None:
    """Tasks from Beta(.75, .25): σ² = E p(1-p) = .09375, and the rates vary as much again, which pairing removes."""
    *paired, unpaired = PAIRED[tasks]
    for attempts, points in zip((1, 2, 3, 5, 8), paired, strict=True):
        assert 100 * paired_mde(tasks, attempts, 0.0938) == pytest.approx(points, abs=0.06)
    assert 100 * paired_mde(tasks, 1, 0.1875) == pytest.approx(unpaired, abs=0.06)


@pytest.mark.parametrize(("discordant", "points"), [(0.1, 7.9), (0.2, 11.1), (0.3, 13.6)])
def test_the_detectable_drop_with_one_attempt_each(discordant: float, points: float) -> None:
    assert 100 * mde_of_changes(100, discordant) == pytest.approx(points, abs=0.06)


def test_the_variance_within_tasks_is_unbiased_and_unknown_from_single_attempts() -> None:
    assert within_variance([(1, 2), (0, 2)]) == 0.25
    assert within_variance([(1, 1), (0, 1)]) is None
    assert within_variance([(1, 1), (1, 2)]) == 0.5
    p, attempts = 0.3, 4
    expected = sum(
        math.comb(attempts, c) * p**c * (1 - p) ** (attempts - c) * (within_variance([(c, attempts)]) or 0)
        for c in range(attempts + 1)
    )
    assert expected == pytest.approx(p * (1 - p))


@given(st.integers(10, 500), st.floats(0.01, 0.2), st.floats(0.005, 0.25), st.floats(0, 0.05))
def test_the_attempts_needed_are_enough_and_one_less_is_not(
    tasks: int, drop: float, within: float, between: float
) -> None:
    needed = attempts_needed(tasks, drop, within, between=between)
    if needed is None:
        assert paired_mde(tasks, 10**9, within, between=between) >= drop * (1 - 1e-6)
        return
    assert paired_mde(tasks, needed, within, between=between) <= drop * (1 + 1e-6)
    if needed > 1:
        assert paired_mde(tasks, needed - 1, within, between=between) >= drop * (1 - 1e-6)


@given(st.integers(1, 2000), st.floats(0.05, 0.95), st.floats(0.5, 0.95))
def test_more_tasks_detect_less_and_more_power_costs_more(n: int, p: float, power: float) -> None:
    assert mde(n + 1, p, power=power) < mde(n, p, power=power) < mde(n, p, power=power + 0.01)
    assert mde(n, p, power=power) == pytest.approx(mde(n, 1 - p, power=power))
    assert mde_of_a_drop(n, p, power=power) <= p
