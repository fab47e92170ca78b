"""The rows of a lease: what counts only in a mean, what older weights sampled; and what must agree."""

from __future__ import annotations

from array import array
from dataclasses import replace
from math import isnan

import pytest
from rl_rows import group, row

from trainer.online.fingerprint import Mismatch, of_rows, of_scaffold, require_same
from trainer.online.rows import _left_out, newest_only
from trainer.samples.rollouts import group_of
from trainer.schedule.ada import pool_advantages


def test_of_an_attempt_under_several_versions_only_the_newest_ones_tokens_are_trained() -> None:
    """Ids 5 6 7 | 8 9 by version 9, 4 observed, 10 11 by version 10: as numbers, not as text."""
    sampled = row(turns=((8, 9), (10, 11)), versions=("9", "10"))
    sampled = replace(sampled, policy_index=array("h", [-1, -1, -1, 0, 0, -1, 1, 1]))
    masked = newest_only(sampled)
    assert list(masked.loss_mask) == [0, 0, 0, 0, 0, 0, 1, 1]
    assert [not isnan(value) for value in masked.logprobs] == [False] * 6 + [True] * 2
    assert masked.reward == sampled.reward
    untouched = row()
    assert newest_only(untouched) is untouched


def test_an_attempt_that_was_not_picked_counts_in_the_mean_and_not_in_the_loss() -> None:
    rows = group([1, 0, 0, 0])
    pool = group_of([rows[0], rows[1], *map(_left_out, rows[2:])])
    assert pool.rewards == [1, 0, 0, 0]
    assert [each.excluded for each in pool.rollouts] == [None, None, "not_picked", "not_picked"]
    assert pool_advantages([1, 0, 0, 0], [0, 1]) == [0.75, -0.25]


def test_two_sides_that_differ_are_told_the_field_and_both_values() -> None:
    require_same({"temperature": 1.0, "tokenizer": None}, {"temperature": 1, "tokenizer": "x"}, "one", "other")
    with pytest.raises(Mismatch, match=r"one and other differ in temperature \(1.0 and 0.7\)"):
        require_same({"temperature": 1.0}, {"temperature": 0.7}, "one", "other")


def test_attempts_that_were_sampled_in_different_ways_are_refused() -> None:
    with pytest.raises(Mismatch, match=r"differ in temperature \(1.0 and 0.5\)"):
        of_rows([[row(attempt=1), replace(row(attempt=2), temperature=0.5)]])
    assert of_rows([[row(), row(None)]]) == {"temperature": 1.0, "agent": "a 1"}


def test_the_scaffold_is_its_settings_without_its_address_and_the_decoding_apart() -> None:
    one = of_scaffold({"max_turns": 3, "base_url": "http://a/v1", "parameters": {"temperature": 1.0}})
    other = of_scaffold({"max_turns": 3, "base_url": "http://b/v1", "parameters": {"temperature": 0.5}})
    assert one["scaffold"] == other["scaffold"]
    assert (one["temperature"], other["temperature"]) == (1.0, 0.5)
    assert one["scaffold"] != of_scaffold({"max_turns": 4})["scaffold"]
