"""Stopping early: e-values against their integral and their exact error rates, and Wald's test against its bounds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from evals.stats.sequential import EarlyStop, SequentialFloor, mixture_e_value


@pytest.mark.parametrize(
    ("worse", "changed", "value"),
    [(6, 6, 18.142857), (7, 7, 31.875), (8, 10, 4.002020), (15, 18, 33.741486), (25, 35, 10.339176)],
)
def test_the_mixture_e_value_has_its_reference_values(worse: int, changed: int, value: float) -> None:
    assert mixture_e_value(worse, changed) == pytest.approx(value, abs=5.1e-7)


@given(st.integers(0, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_mixture_e_value_is_its_integral(case: tuple[int, int]) -> None:
    k, n = case
    integral, _ = quad(lambda q: q**k * (1 - q) ** (n - k), 0.5, 1)
    assert mixture_e_value(k, n) == pytest.approx(2 ** (n + 1) * integral, rel=1e-6)


@given(st.integers(0, 40))
def test_an_e_value_is_worth_one_on_average_where_nothing_changed(n: int) -> None:
    expected = math.fsum(math.comb(n, k) / 2**n * mixture_e_value(k, n) for k in range(n + 1))
    assert expected == pytest.approx(1)


def race(q: float, pairs: int = 60) -> tuple[float, float]:
    """How often a bet of one half is won within so many pairs, a share `q` of them worse; and the pairs it takes."""
    live, won, taken = {0: 1.0}, 0.0, 0.0
    for seen in range(1, pairs + 1):
        after: dict[int, float] = {}
        for worse, weight in live.items():
            for more, chance in ((1, q), (0, 1 - q)):
                now = worse + more
                if 1.5**now * 0.5 ** (seen - now) >= 20:
                    won += weight * chance
                    taken += weight * chance * seen
                else:
                    after[now] = after.get(now, 0.0) + weight * chance
        live = after
    return won, taken + pairs * sum(live.values())


@pytest.mark.parametrize(
    ("q", "won", "pairs"), [(0.5, 0.036, None), (0.6, 0.28, None), (0.7, 0.80, None), (0.8, 0.996, 17)]
)
def test_a_bet_keeps_its_error_rate_at_every_moment(q: float, won: float, pairs: float | None) -> None:
    found, taken = race(q)
    assert found == pytest.approx(won, abs=0.02)
    assert q > 0.5 or found <= 0.05
    if pairs is not None:
        assert taken == pytest.approx(pairs, abs=1)


def test_early_stop_multiplies_its_stakes_and_stops_at_the_bound() -> None:
    watch = EarlyStop(alpha=0.05)
    assert [watch.add(worse=True) for _ in range(8)] == [False] * 7 + [True]
    assert (watch.wealth, watch.pairs) == (1.5**8, 8)
    assert not watch.add(worse=False)
    assert watch.wealth == 1.5**8 * 0.5


FLOOR = SequentialFloor(good=0.8, bad=0.7)


def test_walds_bounds() -> None:
    assert FLOOR.bounds == pytest.approx((-1.558145, 2.772589), abs=5.1e-7)
    assert FLOOR.bounds[1] == pytest.approx(math.log(16))
    assert FLOOR.accepts(0, 0) is None
    assert FLOOR.accepts(40, 0) is True
    assert FLOOR.accepts(0, 40) is False


def walk(p: float, horizon: int = 2000) -> tuple[float, float]:
    """How often the floor rejects a rate of `p`, and after how many attempts on average it decides."""
    live, rejected, taken = {0: 1.0}, 0.0, 0.0
    for n in range(1, horizon):
        after: dict[int, float] = {}
        for wins, weight in live.items():
            for more, chance in ((1, p), (0, 1 - p)):
                now = wins + more
                decision = FLOOR.accepts(now, n - now)
                if decision is None:
                    after[now] = after.get(now, 0.0) + weight * chance
                else:
                    rejected += weight * chance * (not decision)
                    taken += weight * chance * n
        live = {wins: weight for wins, weight in after.items() if weight > 1e-12}
    return rejected, taken


@pytest.mark.parametrize(("p", "rejected", "taken"), [(0.8, 0.042, 55), (0.7, 0.806, 73)])
def test_walds_test_decides_sooner_than_a_fixed_number(p: float, rejected: float, taken: float) -> None:
    found, mean = walk(p)
    assert found == pytest.approx(rejected, abs=0.012)
    assert mean == pytest.approx(taken, abs=2)
    z_alpha, z_beta = 1.6448536270, 0.8416212336
    fixed = ((z_alpha * math.sqrt(0.8 * 0.2) + z_beta * math.sqrt(0.7 * 0.3)) / 0.1) ** 2
    assert fixed == pytest.approx(108.9, abs=0.05)
    assert mean < fixed
