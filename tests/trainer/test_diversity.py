"""Diversity of tool-call sequences and the estimators of two policies' distance, against worked numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.monitor.diversity import (
    alike,
    distinct,
    diversity_numbers,
    edit_distance,
    mean_edit,
    potential,
    self_bleu,
    unique_share,
    vendi,
)
from trainer.monitor.estimators import divergence, effective_share, ratio_numbers

T = [["ls", "read", "edit", "test"]] * 3 + [["grep", "edit", "test"]]
SEQUENCES = st.lists(st.lists(st.sampled_from("abc"), max_size=5), min_size=2, max_size=5)


def test_three_alike_and_one_other_by_hand() -> None:
    assert distinct(T, 1) == pytest.approx(0.3333, abs=5e-5)
    assert distinct(T, 2) == pytest.approx(0.3636, abs=5e-5)
    assert unique_share(T) == 0.5
    assert edit_distance(T[0], T[3]) == 2
    assert mean_edit(T) == 0.25
    assert vendi(T) == pytest.approx(1.7548, abs=5e-5)
    assert vendi(T, alike) == pytest.approx(1.5758, abs=5e-5)


def test_one_strategy_counts_as_one_and_four_without_anything_in_common_as_four() -> None:
    assert vendi([T[0]] * 4) == pytest.approx(1)
    assert vendi([["a"], ["b"], ["c"], ["d"]], alike) == pytest.approx(4)


def test_self_bleu_is_one_for_copies_and_zero_for_strangers() -> None:
    assert self_bleu([T[0]] * 3) == pytest.approx(1)
    assert self_bleu([["a", "b"], ["c", "d"]]) == 0
    # [a b] in [a c]: half of its words, none of its pairs.
    assert self_bleu([["a", "b"], ["a", "c"]], n=1) == pytest.approx(0.5)


def test_another_order_is_another_strategy() -> None:
    assert unique_share([["read", "edit"], ["edit", "read"]]) == 1
    assert mean_edit([["read", "edit"], ["edit", "read"]]) == 1


@given(SEQUENCES)
def test_an_edit_distance_is_a_distance(sequences: list[list[str]]) -> None:
    for one in sequences:
        assert edit_distance(one, one) == 0
        for other in sequences:
            assert edit_distance(one, other) == edit_distance(other, one) <= max(len(one), len(other))
            assert all(
                edit_distance(one, other) <= edit_distance(one, each) + edit_distance(each, other) for each in sequences
            )


@given(SEQUENCES)
def test_strategies_are_between_one_and_their_number_whatever_the_order(sequences: list[list[str]]) -> None:
    found = vendi(sequences)
    assert found is not None and 1 - 1e-9 <= found <= len(sequences) + 1e-9
    assert vendi(sequences[::-1]) == pytest.approx(found)


def test_potential_counts_where_one_attempt_is_not_enough() -> None:
    assert potential([1.0, 0.5, 0.0], [1.0, 0.8, 0.2]) == pytest.approx((0.8 * 0.5 + 0.2) / 1.5)
    assert potential([1.0], [1.0]) is None


def test_a_step_averages_over_the_tasks_that_tell() -> None:
    numbers = diversity_numbers([T, [["ls"]], [["a"], ["a"]]])
    assert numbers["unique_sequences"] == 0.5
    assert numbers["strategies"] == pytest.approx((1.7548 + 1) / 2, abs=5e-5)
    assert diversity_numbers([])["strategies"] is None


def test_two_policies_by_hand() -> None:
    d = [0.0, 0.1, -0.2]
    assert divergence("x", d)["x_k3"] == pytest.approx(0.0079672, abs=5e-8)
    assert divergence("x", d)["x_k1"] == pytest.approx(0.03333, abs=5e-6)
    assert ratio_numbers(d)["ess"] == pytest.approx(0.98548, abs=5e-6)
    assert effective_share([1, 1, 1, 10]) == pytest.approx(0.41019, abs=5e-6)


def test_what_is_not_finite_is_left_out_and_nothing_at_all_is_unknown() -> None:
    assert divergence("x", [np.nan, 0.1])["x_k1"] == pytest.approx(-0.1)
    assert set(ratio_numbers([np.nan]).values()) == {None}
    assert divergence("x", [])["x_k3"] is None
