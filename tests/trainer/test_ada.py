"""Reinforce-Ada: rounds, exits, picks without an order's bias, and what a prompt costs."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.schedule.ada import AdaRule, gate_open, pool_advantages

BALANCE = AdaRule()


def test_advantages_are_against_the_whole_pool() -> None:
    pool = [1.0, 1.0] + [0.0] * 14
    picked = BALANCE.picked(pool, Random(0))
    assert picked[:2] == [0, 1] and len(picked) == 4
    assert pool_advantages(pool, picked) == [0.875, 0.875, -0.125, -0.125]


def test_a_prompt_leaves_with_half_of_either_kind_or_with_one_success() -> None:
    assert not BALANCE.resolved([1, 0, 0, 0, 0, 0, 0, 0])
    assert BALANCE.resolved([1, 1, 0, 0])
    positive = AdaRule(exit="positive")
    assert positive.resolved([0, 0, 1]) and not positive.resolved([0, 0, 0])
    assert not positive.resolved([0.7])  # a success is above the threshold


def test_a_prompt_leaves_unresolved_after_its_rounds() -> None:
    assert not BALANCE.left([0.0] * 31)
    assert BALANCE.left([0.0] * 32) and not BALANCE.resolved([0.0] * 32)


@pytest.mark.parametrize(("p", "first"), [(0.5, 0.9297), (0.1, 0.1869)])
def test_what_leaves_after_the_first_round(p: float, first: float) -> None:
    assert BALANCE.exit_probability(p, 8) == pytest.approx(first, abs=5e-5)


@pytest.mark.parametrize(("p", "within"), [(0.1, 0.8436), (0.01, 0.0407)])
def test_what_is_resolved_in_the_end(p: float, within: float) -> None:
    assert BALANCE.exit_probability(p, 32) == pytest.approx(within, abs=5e-5)


@pytest.mark.parametrize(("p", "samples"), [(0.5, 8.57), (0.1, 20.96), (0.01, 31.70)])
def test_what_a_prompt_costs_computed_and_played(p: float, samples: float) -> None:
    assert BALANCE.expected_samples(p) == pytest.approx(samples, abs=5e-3)
    random, spent = Random(1), 0
    for _ in range(1000):
        pool: list[float] = []
        while not BALANCE.left(pool):
            pool += [float(random.random() < p) for _ in range(8)]
        spent += len(pool)
    assert spent / 1000 == pytest.approx(samples, rel=0.05)


@pytest.mark.parametrize(("p", "opens"), [(0.5, 0.9922), (0.1, 0.5695), (0.01, 0.0773)])
def test_the_gate_of_a_group_of_eight(p: float, opens: float) -> None:
    assert gate_open(p, 8) == pytest.approx(opens, abs=5e-5)


@given(rewards=st.lists(st.sampled_from([0.0, 1.0]), max_size=32), keep=st.integers(1, 9))
def test_as_many_as_there_are_half_of_either_kind_and_none_twice(rewards: list[float], keep: int) -> None:
    picked = AdaRule(keep=keep).picked(rewards, Random(0))
    assert len(set(picked)) == len(picked) == min(keep, len(rewards))
    good = sum(rewards[number] > 0.7 for number in picked)
    half = keep // 2
    assert good >= min(half, sum(rewards)) and len(picked) - good >= min(half, len(rewards) - sum(rewards))


def test_the_pools_order_does_not_decide_who_is_picked() -> None:
    pool, random = [1.0] * 8 + [0.0] * 8, Random(0)
    times = [0] * 16
    for _ in range(2000):
        for number in BALANCE.picked(pool, random):
            times[number] += 1
    assert all(count == pytest.approx(500, rel=0.2) for count in times)
