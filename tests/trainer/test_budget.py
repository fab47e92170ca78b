"""Attempts go to where they lower the gradient's variance most: worked numbers, brute force, properties."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trainer.schedule.budget import Estimator, continuous, uniform, variance, vip
from trainer.schedule.success import SuccessEstimates

P = [0.5, 0.8, 0.95]


def test_rloo_by_hand() -> None:
    assert continuous(P, 24, low=2) == pytest.approx([10.392, 8.514, 5.094], abs=5e-4)
    assert vip(P, 24, low=2) == [10, 9, 5]
    assert variance(P, [10, 9, 5]) == pytest.approx(0.059653, abs=5e-7)
    assert variance(P, uniform(3, 24)) == pytest.approx(0.065357, abs=5e-7)


def test_rloo_within_bounds() -> None:
    assert continuous(P, 24, low=3, high=10) == pytest.approx([10, 8.768, 5.232], abs=5e-4)
    assert vip(P, 24, low=3, high=10) == [10, 9, 5]


def test_dr_grpo_by_hand() -> None:
    found = continuous(P, 24, estimator="dr_grpo")
    assert found == pytest.approx([11.418, 8.848, 3.735], abs=5e-4)
    multiplier = [p * (1 - p) * (n - 2) / n**3 for p, n in zip(P, found, strict=True)]
    assert multiplier == pytest.approx([0.0015818] * 3, abs=5e-8)
    assert vip(P, 24, estimator="dr_grpo") == [11, 9, 4]
    assert variance(P, [11, 9, 4], "dr_grpo") == pytest.approx(0.045370, abs=5e-7)
    assert variance(P, [8, 8, 8], "dr_grpo") == pytest.approx(0.050039, abs=5e-7)


@pytest.mark.parametrize("estimator", ["rloo", "dr_grpo"])
@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
def test_prompts_that_are_alike_get_alike(estimator: Estimator, p: float) -> None:
    assert vip([p] * 4, 32, estimator=estimator) == [8] * 4


def test_what_is_sure_still_gets_the_least() -> None:
    assert vip([0.0, 0.5, 1.0], 24, low=3) == [3, 18, 3]


@settings(max_examples=40)
@given(
    success=st.lists(st.floats(0, 1), min_size=1, max_size=3),
    more=st.integers(0, 12),
    room=st.integers(0, 9),
    estimator=st.sampled_from(["rloo", "dr_grpo"]),
)
@example(success=[5e-324], more=0, room=0, estimator="rloo")
@example(success=[5e-324, 0.5], more=3, room=4, estimator="dr_grpo")
def test_no_other_allocation_has_less_variance(
    success: list[float], more: int, room: int, estimator: Estimator
) -> None:
    low, high, budget = 3, 3 + room, 3 * len(success) + min(more, room * len(success))
    found = vip(success, budget, low=low, high=high, estimator=estimator)
    assert sum(found) == budget and all(low <= n <= high for n in found)
    best = min(
        variance(success, each, estimator)
        for each in product(range(low, high + 1), repeat=len(success))
        if sum(each) == budget
    )
    assert variance(success, found, estimator) <= best + 1e-12


@pytest.mark.parametrize(
    ("low", "high", "budget", "estimator", "words"),
    [
        (2, None, 24, "dr_grpo", "at least 3 attempts"),
        (8, None, 16, "rloo", "no budget of 16"),
        (3, 4, 24, "rloo", "3 to 4 attempts"),
    ],
)
def test_an_impossible_budget_is_refused_in_words(
    low: int, high: int | None, budget: int, estimator: Estimator, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        vip(P, budget, low=low, high=high, estimator=estimator)


def test_the_variance_of_the_leave_one_out_gradient_falls_as_one_by_n_minus_one() -> None:
    rng = np.random.default_rng(0)

    def measured(n: int) -> float:
        rewards = np.where(rng.random((40_000, n)) < 0.5, 1.0, -1.0)
        score = rng.standard_normal((40_000, n))
        baseline = (rewards.sum(1, keepdims=True) - rewards) / (n - 1)
        return float(((rewards - baseline) * score).mean(1).var())

    ratio = measured(3) / measured(5)
    assert ratio == pytest.approx((5 - 1) / (3 - 1), rel=0.06)


def test_success_is_expected_half_the_time_and_learned_with_forgetting() -> None:
    estimates = SuccessEstimates(discount=0.5)
    assert estimates.success("new") == 0.5
    estimates.update("a", solved=0, failed=8)
    assert estimates.success("a") == pytest.approx(0.1)
    for _ in range(20):
        estimates.update("a", solved=8, failed=0)
    assert estimates.success("a") > 0.94
    again = SuccessEstimates()
    again.restore(estimates.state())
    assert again.success("a") == estimates.success("a")
