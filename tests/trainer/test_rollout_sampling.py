"""From logits to tokens: worked numbers, and what can never be sampled."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.rollout.sampling import Sampling, sample

ODDS = [0.1, 0.4, 0.05, 0.3, 0.15]
LOGITS = torch.tensor(ODDS).log()


def drawn(draw: float, **asked: float) -> int:
    (token,), _ = sample(LOGITS[None], [Sampling(max_tokens=1, **asked)], [draw], "raw")  # type: ignore[arg-type]
    return token


def test_a_uniform_number_falls_into_the_token_whose_share_it_is_in() -> None:
    # Cumulative: .1, .5, .55, .85, 1.
    assert [drawn(each) for each in (0.0, 0.09, 0.11, 0.49, 0.51, 0.56, 0.84, 0.86, 0.999999)] == [
        *(0, 0, 1, 1, 2, 3, 3, 4, 4),
    ]


def test_top_k_leaves_the_likeliest_and_top_p_their_smallest_sufficient_set() -> None:
    draws = [index / 200 for index in range(200)]
    assert {drawn(each, top_k=2) for each in draws} == {1, 3}
    assert {drawn(each, top_p=0.69) for each in draws} == {1, 3}
    assert {drawn(each, top_p=0.71) for each in draws} == {1, 3, 4}
    assert {drawn(each, top_p=0.001) for each in draws} == {1}
    # Of .4 and .3 the first has 4/7 = .571.
    assert {drawn(each, top_k=2, top_p=0.57) for each in draws} == {1}
    assert {drawn(each, top_k=2, top_p=0.58) for each in draws} == {1, 3}


def test_log_probabilities_are_raw_or_after_temperature_and_never_after_truncation() -> None:
    asked = [Sampling(max_tokens=1, temperature=0.5, top_k=1), Sampling(max_tokens=1, temperature=0)]
    logits = LOGITS.expand(2, -1)
    ids, raw = sample(logits, asked, [0.5, 0.5], "raw")
    assert ids == [1, 1]
    assert raw == pytest.approx([math.log(0.4)] * 2)
    _, processed = sample(logits, asked, [0.5, 0.5], "processed")
    squares = sum(each**2 for each in ODDS)
    assert processed == pytest.approx([math.log(0.16 / squares), math.log(0.4)])


rows = st.lists(st.lists(st.floats(-20, 20), min_size=6, max_size=6), min_size=1, max_size=4)


@given(rows=rows, draw=st.floats(0, 1, exclude_max=True), top_k=st.integers(1, 6), top_p=st.floats(0.01, 1))
def test_a_row_samples_the_same_alone_and_among_others(
    rows: list[list[float]], draw: float, top_k: int, top_p: float
) -> None:
    asked = [Sampling(max_tokens=1, top_k=top_k, top_p=top_p), *[Sampling(max_tokens=1)] * (len(rows) - 1)]
    logits = torch.tensor(rows)
    together, _ = sample(logits, asked, [draw] * len(rows), "raw")
    alone, _ = sample(logits[:1], asked[:1], [draw], "raw")
    assert together[0] == alone[0]
    odds = logits[0].log_softmax(-1).exp()
    assert odds[alone[0]] >= odds.sort(descending=True).values[top_k - 1]
