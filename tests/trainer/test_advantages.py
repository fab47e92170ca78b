"""Advantages and shaped rewards, by worked numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.advantages import (
    batch_mean,
    chunk_returns,
    fixed_baseline,
    generalised_advantage,
    group_mean,
    group_std,
    has_signal,
    leave_one_out,
)
from trainer.shaping import length_budget, length_rewards, overlong_penalty, toggled_rewards

REWARDS = st.lists(st.one_of(st.none(), st.floats(-10, 10)), max_size=12)


def test_the_two_flavours_of_std_differ() -> None:
    assert group_std([1, 0, 0, 0]) == pytest.approx([1.5, -0.5, -0.5, -0.5])
    assert group_std([1, 0, 0, 0], flavour="population") == pytest.approx([1.73205] + [-0.57735] * 3, abs=1e-5)


@pytest.mark.case("G2")
def test_a_missing_reward_is_in_no_mean() -> None:
    assert group_std([None, 1, 1, 0]) == pytest.approx([0.0, 0.57735, 0.57735, -1.15470], abs=1e-5)
    assert group_mean([1, 0, None]) == [0.5, -0.5, 0.0]
    assert group_std([1, 0, None]) == [*group_std([1, 0]), 0.0]
    assert leave_one_out([1, 0, None]) == [1.0, -1.0, 0.0]
    assert batch_mean([[1, None], [0, 0, None]]) == pytest.approx(1 / 3)


@pytest.mark.parametrize("estimate", [group_mean, group_std, leave_one_out])
@pytest.mark.parametrize("rewards", [[], [1.0], [None], [1.0, None], [None, None], [1.0, 1.0, 1.0]])
def test_a_group_that_compares_nothing_teaches_nothing(estimate, rewards) -> None:  # type: ignore[no-untyped-def]
    assert estimate(rewards) == [0.0] * len(rewards)
    assert not has_signal(rewards)


def test_leave_one_out_is_the_mean_of_the_others() -> None:
    rewards = [1.0, 0.5, 0.0]
    expected = [1.0 - 0.25, 0.5 - 0.5, 0.0 - 0.75]
    assert leave_one_out(rewards) == pytest.approx(expected)


def test_positive_only_needs_a_baseline_beyond_the_group() -> None:
    assert group_mean([1, 1, 1, 1]) == [0.0] * 4
    assert fixed_baseline([1, 1, 1, 1], batch_mean([[1, 1, 1, 1], [0, 0, 0, 0]])) == [0.5] * 4


def test_reinforce_ada_takes_the_mean_of_the_whole_pool() -> None:
    pool = [1.0] * 2 + [0.0] * 14
    assert fixed_baseline([1, 1, 0, 0], batch_mean([pool])) == [0.875, 0.875, -0.125, -0.125]


def test_dynamic_sampling_keeps_groups_that_tell_attempts_apart() -> None:
    groups = [[1.0] * 4, [0.0] * 4, [1.0, 0.0, 0.0, 1.0]]
    assert [has_signal(group) for group in groups] == [False, False, True]


def test_chunk_returns_discount_by_chunk() -> None:
    assert chunk_returns([0, 0, 0, 1], 0.9) == pytest.approx([0.729, 0.81, 0.9, 1])
    assert chunk_returns([0.1, 0, 0, 1], 0.9) == pytest.approx([0.829, 0.81, 0.9, 1])
    assert chunk_returns([0.1, -0.2, 0, 1], 1.0) == pytest.approx([0.9, 0.8, 1, 1])
    assert 0.9**2000 < 1e-90  # why not by token


def test_the_generalised_advantage_telescopes() -> None:
    advantages, returns = generalised_advantage([0, 0, 1], [0.2, 0.4, 0.6], gamma=1.0, lam=1.0)
    assert advantages == pytest.approx([0.8, 0.6, 0.4])
    assert returns == pytest.approx([1, 1, 1])
    advantages, _ = generalised_advantage([0, 0, 1], [0.2, 0.4, 0.6], gamma=0.5, lam=0.0)
    assert advantages == pytest.approx([0.0, -0.1, 0.4])


@given(REWARDS)
def test_centred_advantages_sum_to_zero_and_do_not_depend_on_the_order(rewards: list[float | None]) -> None:
    for estimate in (group_mean, group_std, leave_one_out):
        advantages = estimate(rewards)
        assert math.fsum(advantages) == pytest.approx(0, abs=1e-6)
        assert estimate(rewards[::-1]) == pytest.approx(advantages[::-1], abs=1e-9)


@given(REWARDS)
def test_missing_rewards_change_nothing_for_the_others(rewards: list[float | None]) -> None:
    known = [reward for reward in rewards if reward is not None]
    for estimate in (group_mean, group_std, leave_one_out):
        kept = [advantage for advantage, reward in zip(estimate(rewards), rewards, strict=True) if reward is not None]
        assert kept == estimate(known)


def test_the_overlong_penalty_is_linear_in_its_cache() -> None:
    lengths = (16384, 17408, 18432, 20480, 20481)
    penalties = [overlong_penalty(length, max_length=20480, cache=4096) for length in lengths]
    assert penalties == [0, -0.25, -0.5, -1, -1]


def test_the_length_reward_never_pays_a_wrong_attempt() -> None:
    assert length_rewards([100, 200, 300], [True, True, False]) == [0.5, 0.0, -0.5]
    assert length_rewards([100, 200, 300], [False, True, True]) == [0.0, 0.0, -0.5]
    assert length_rewards([100, 100], [True, False]) == [0.0, 0.0]


def test_the_toggle_bites_in_even_periods_once_a_task_goes_well() -> None:
    rewards, lengths = [1.0, 1.0, 1.0, 0.0], [100, 300, 200, 500]
    budget = length_budget(lengths, [reward > 0 for reward in rewards], 50)
    assert budget == 200

    def shaped(rewards: list[float], step: int) -> list[float | None]:
        return toggled_rewards(rewards, lengths, step=step, period=10, threshold=0.5, budget=budget)

    assert shaped(rewards, step=5) == [1, 0, 1, 0]
    assert shaped(rewards, step=12) == rewards
    assert shaped([0.0, 1.0, 0.0, 0.0], step=5) == [0.0, 1.0, 0.0, 0.0]
    assert length_budget(lengths, [False] * 4, 50) == math.inf
