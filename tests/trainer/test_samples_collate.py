"""Rows as tensors: what is trained, what predicts it, and nothing of what is masked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rl_rows import group, row

from trainer.config import parse_config
from trainer.samples.batch import TrainingRow
from trainer.samples.collate import buckets, collate, packs, share
from trainer.samples.plan import Planner


def planned(*groups: list) -> tuple[TrainingRow, ...]:  # type: ignore[type-arg]
    (batch,) = Planner(parse_config({"groups_per_step": len(groups)})).batches(groups)
    return batch.rows


def bare(length: int) -> TrainingRow:
    zeros = np.zeros(length, dtype=np.float32)
    mask = np.ones(length, dtype=np.bool_)
    mask[0] = False
    return TrainingRow(
        sample_id="s", rollout_id="r", group_id="g", token_ids=np.arange(length, dtype=np.int32), mask=mask,
        behaviour=zeros, advantage=zeros, chunk=np.zeros(length, dtype=np.int32), weight=1.0, positive=True, reward=1.0,
    )  # fmt: skip


def test_each_trained_token_is_predicted_by_the_one_before_it() -> None:
    rows = planned([row(1, attempt=1, turns=[[8, 9], [10]]), row(0, attempt=2, prompt=(5, 6))])
    made = collate(rows)
    assert made.input_ids.tolist() == [[5, 6, 7, 8, 9, 4, 10], [5, 6, 8, 9, 0, 0, 0]]
    assert made.source.tolist() == [2, 3, 5, 8, 9]
    assert made.target.tolist() == [8, 9, 10, 8, 9]
    assert made.row.tolist() == [0, 0, 0, 1, 1]
    assert made.chunk.tolist() == [0, 0, 1, 2, 2]
    assert made.positive.tolist() == [True] * 3 + [False] * 2
    assert made.real_tokens == 11


@pytest.mark.case("G9")
def test_every_branch_of_a_rollout_has_its_advantage_on_its_own_tokens_alone() -> None:
    branches = [
        row(1, attempt=1, turns=[[8, 9], [10]], n_branches=2),
        row(1, attempt=1, turns=[[11], [12, 13]], branch=1, n_branches=2),
    ]
    made = collate(planned([*branches, row(0, attempt=2, turns=[[14]])]))
    assert list(zip(made.target.tolist(), made.advantage.tolist(), strict=True)) == [
        *((token, 0.5) for token in (8, 9, 10)),
        *((token, 0.5) for token in (11, 12, 13)),
        (14, -0.5),
    ]


def test_packed_rows_follow_one_another_without_padding() -> None:
    rows = planned([row(1, attempt=1, turns=[[8, 9], [10]]), row(0, attempt=2, prompt=(5, 6))])
    made, padded = collate(rows, packed=True), collate(rows)
    assert made.input_ids.tolist() == [[5, 6, 7, 8, 9, 4, 10, 5, 6, 8, 9]]
    assert made.source.tolist() == [2, 3, 5, 8, 9]
    for name in ("target", "behaviour", "advantage", "weight", "temperature", "row", "chunk", "positive"):
        assert getattr(made, name).tolist() == getattr(padded, name).tolist()


def test_garbage_at_masked_positions_is_not_even_read() -> None:
    made = collate(planned(group([1, 0])))
    for tensor in (made.behaviour, made.advantage, made.weight):
        assert tensor.isfinite().all()


@given(st.lists(st.integers(2, 200), min_size=1, max_size=40), st.integers(2, 512))
def test_buckets_keep_every_row_and_their_budget(lengths: list[int], budget: int) -> None:
    made = buckets([bare(length) for length in lengths], budget)
    assert sorted(len(each) for bucket in made for each in bucket) == sorted(lengths)
    assert all(len(bucket) == 1 or max(map(len, bucket)) * len(bucket) <= budget for bucket in made)


@given(st.lists(st.integers(2, 200), min_size=1, max_size=40), st.integers(2, 512))
def test_packs_keep_every_row_and_their_budget_and_are_fuller_than_half(lengths: list[int], budget: int) -> None:
    made = packs([bare(length) for length in lengths], budget)
    assert sorted(len(each) for pack in made for each in pack) == sorted(lengths)
    sizes = [sum(map(len, pack)) for pack in made]
    assert all(size <= budget for size, pack in zip(sizes, made, strict=True) if len(pack) > 1)
    assert sum(size * 2 <= budget for size in sizes) <= 1


@given(st.lists(st.integers(2, 200), max_size=40), st.integers(1, 5))
def test_ranks_share_all_rows_and_none_twice(lengths: list[int], world: int) -> None:
    rows = [bare(length) for length in lengths]
    parts = [share(rows, rank, world) for rank in range(world)]
    assert sorted(id(each) for part in parts for each in part) == sorted(map(id, rows))
    loads = [sum(map(len, part)) for part in parts]
    assert max(loads) - min(loads) <= max(lengths, default=0)
