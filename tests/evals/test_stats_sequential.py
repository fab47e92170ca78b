"""Stopping early: e-values against their integral and their exact error rates, and Wald's test against its bounds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from evals.stats.sequential import EarlyStop, SequentialFloor, ThresholdBets, mixture_e_value


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


STAKES = [n / 20 for n in range(1, 20)]


def wealth_above(passed: int, n: int, m: float) -> float:
    """The first gambler's, of so many passes among n tasks with one attempt each."""
    return math.fsum((1 + s * (1 - m) / m) ** passed * (1 - s) ** (n - passed) for s in STAKES) / len(STAKES)


@given(st.lists(st.booleans(), max_size=30), st.sampled_from([0.2, 0.5, 0.7, 0.9]))
def test_the_wealth_of_the_bets_is_its_closed_form_whatever_the_order(passes: list[bool], m: float) -> None:
    bets = ThresholdBets(m)
    for passed in passes:
        bets.add(float(passed), float(passed))
    assert bets.above == pytest.approx(wealth_above(sum(passes), len(passes), m))
    assert bets.below == pytest.approx(wealth_above(len(passes) - sum(passes), len(passes), 1 - m))


@given(st.integers(0, 40), st.sampled_from([0.2, 0.5, 0.7, 0.9]))
def test_a_bet_on_a_threshold_is_fair_where_the_rate_is_just_that(n: int, m: float) -> None:
    chances = (math.comb(n, k) * m**k * (1 - m) ** (n - k) for k in range(n + 1))
    expected = math.fsum(chance * wealth_above(k, n, m) for k, chance in enumerate(chances))
    assert expected == pytest.approx(1)


def decided(p: float, m: float, tasks: int) -> tuple[float, float, float]:
    """Exactly: how often a rate of `p` is called above and below `m` within so many tasks, and the tasks it takes."""
    live, above, below, taken = {0: 1.0}, 0.0, 0.0, 0.0
    for seen in range(1, tasks + 1):
        after: dict[int, float] = {}
        for passed, weight in live.items():
            for more, chance in ((1, p), (0, 1 - p)):
                after[passed + more] = after.get(passed + more, 0.0) + weight * chance
        live = {}
        for passed, weight in after.items():
            up, down = wealth_above(passed, seen, m) >= 20, wealth_above(seen - passed, seen, 1 - m) >= 20
            above, below = above + weight * up, below + weight * down
            taken += seen * weight * (up or down)
            if not (up or down):
                live[passed] = weight
    return above, below, taken + tasks * sum(live.values())


@pytest.mark.parametrize(
    ("p", "above", "below", "taken"),
    [
        (0.70, 0.0335, 0.0321, 189.3),
        (0.699, 0.0324, 0.0330, 189.3),
        (0.80, 0.7488, 0.0030, 116.9),
        (0.55, 0.0005, 0.9423, 77.3),
    ],
)
def test_a_threshold_is_called_wrongly_less_often_than_alpha_at_any_time(
    p: float, above: float, below: float, taken: float
) -> None:
    found = decided(p, 0.7, 200)
    assert found[:2] == pytest.approx((above, below), abs=5.1e-5)
    assert found[2] == pytest.approx(taken, abs=0.051)
    assert (found[0] if p < 0.7 else found[1]) <= 0.05


def test_what_is_unknown_helps_neither_gambler() -> None:
    bets = ThresholdBets(0.7)
    for _ in range(50):
        bets.add(0.0, 1.0)
    assert max(bets.above, bets.below) < 1


@pytest.mark.parametrize("threshold", [0, 1, -0.1, math.nan])
def test_a_threshold_lies_between_0_and_1(threshold: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        ThresholdBets(threshold)


def test_a_value_outside_0_and_1_is_refused() -> None:
    with pytest.raises(ValueError, match="no value"):
        ThresholdBets(0.5).add(0.7, 0.3)
