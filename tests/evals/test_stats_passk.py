"""pass@k and pass^k: the unbiased estimators, and None where attempts are missing."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.stats.passk import OverTasks, over_tasks, pass_at_k, pass_hat_k

AT_LEAST_ONE = [
    (10, 3, {1: 0.3, 2: 0.5333333333, 3: 0.7083333333, 5: 0.9166666667, 8: 1}),
    (8, 4, {2: 0.7857142857, 3: 0.9285714286, 4: 0.9857142857, 5: 1}),
    (5, 1, {1: 0.2, 2: 0.4, 3: 0.6, 4: 0.8, 5: 1}),
    (200, 13, {10: 0.4975511147, 100: 0.9999194972}),
]
ALL = [
    (10, 3, {2: 0.0666666667, 3: 0.0083333333, 4: 0}),
    (8, 4, {2: 0.2142857143, 3: 0.0714285714, 4: 0.0142857143}),
    (4, 3, {2: 0.5, 3: 0.25, 4: 0}),
]


@pytest.mark.parametrize(("n", "c", "k", "value"), [(n, c, k, v) for n, c, row in AT_LEAST_ONE for k, v in row.items()])
def test_pass_at_k_has_its_reference_value(n: int, c: int, k: int, value: float) -> None:
    assert pass_at_k(n, c, k) == pytest.approx(value, abs=5e-11)


@pytest.mark.parametrize(("n", "c", "k", "value"), [(n, c, k, v) for n, c, row in ALL for k, v in row.items()])
def test_pass_hat_k_has_its_reference_value(n: int, c: int, k: int, value: float) -> None:
    assert pass_hat_k(n, c, k) == pytest.approx(value, abs=5e-11)


def test_putting_the_rate_into_the_formula_would_be_biased() -> None:
    assert pytest.approx(0.83193) == 1 - (1 - 3 / 10) ** 5
    assert pytest.approx(0.0625) == (4 / 8) ** 4
    assert pass_at_k(10, 3, 5) != pytest.approx(0.83193, abs=0.05)


@pytest.mark.case("F7")
def test_a_task_that_lost_attempts_is_undefined_and_the_mean_says_over_how_many_it_is() -> None:
    assert (pass_at_k(4, 1, 2), pass_at_k(1, 1, 2), pass_hat_k(1, 1, 2)) == (0.5, None, None)
    assert over_tasks(pass_at_k, [(4, 1), (1, 1)], 2) == OverTasks(0.5, 1, 2)
    assert over_tasks(pass_at_k, [(1, 1)], 2) == OverTasks(None, 0, 1)


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_they_are_what_drawing_k_of_n_attempts_gives(case: tuple[int, int, int]) -> None:
    n, c, k = case
    draws = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))
    assert pass_hat_k(n, c, k) == pytest.approx(sum(map(all, draws)) / len(draws))


@given(st.integers(2, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n - 1))))
def test_more_tries_help_one_of_them_and_hurt_all_of_them(case: tuple[int, int, int]) -> None:
    n, c, k = case
    assert (pass_at_k(n, c, k) or 0) <= (pass_at_k(n, c, k + 1) or 0)
    assert (pass_hat_k(n, c, k) or 0) >= (pass_hat_k(n, c, k + 1) or 0)
    assert pass_at_k(n, c, 1) == pass_hat_k(n, c, 1) == pytest.approx(c / n)
    assert pass_at_k(n, c, k) == pytest.approx(1 - (pass_hat_k(n, n - c, k) or 0))


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_nonsense_is_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="no pass@k"):
        pass_at_k(n, c, k)
