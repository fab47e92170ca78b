"""Whatever agents, context policies and sub-agents do: each sampled token is trained once, and nothing else is."""

from __future__ import annotations

from array import array
from collections import Counter
from math import isnan
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollouts import conversations, exported
from thorough import times

from harness.export.faults import fault_of
from harness.export.schema import RLSample
from harness.store.rollout import SampledCall

ATTEMPTS = st.lists(conversations(), min_size=1, max_size=5)


def trained(row: RLSample) -> list[tuple[str, int, int, bytes]]:
    """Every token in the loss: its call, its place within the call, itself, and its log-probability's 32 bits."""
    found = []
    for span in row.spans:
        if span.kind == "sampled":
            for number in range(span.start, span.end):
                bits = array("f", [row.logprobs[number]]).tobytes()
                found.append((f"{row.trial}/{span.call_id}", number - span.start, row.token_ids[number], bits))
    return found


def sampled(trial: str, calls: list[SampledCall]) -> list[tuple[str, int, int, bytes]]:
    """The same of what was really sampled, calls with a fault left out."""
    return [
        (f"{trial}/{each.call_id}", number, token, array("f", [logprob]).tobytes())
        for each in calls
        if fault_of(each) is None
        for number, (token, logprob) in enumerate(zip(each.completion_ids or (), each.logprobs or (), strict=True))
    ]


def check(folder: Path, attempts: list[list[SampledCall]]) -> None:
    anchor = [SampledCall(call_id="n", prompt_ids=[1], completion_ids=[2], logprobs=[-1.0])]
    attempts = [*attempts, anchor]  # something to train on, whatever was drawn
    rows, stats = exported(folder, attempts)
    wanted = [each for number, calls in enumerate(attempts, 1) for each in sampled(f"t0000__{number}", calls)]
    assert Counter(each for row in rows for each in trained(row)) == Counter(wanted)
    assert max(Counter(each for row in rows for each in trained(row)).values()) == 1
    assert sum(sum(row.loss_mask) for row in rows) == len(wanted) == stats.tokens["sampled"]
    for row in rows:
        assert all(isnan(logprob) for logprob, mask in zip(row.logprobs, row.loss_mask, strict=True) if not mask)
        for span in row.spans:
            if span.kind in ("sampled", "trained_elsewhere", "invalid"):
                calls = attempts[row.attempt - 1]
                (of,) = [each for each in calls if each.call_id == span.call_id]
                ids = list(row.token_ids[span.start : span.end])
                assert ids == list(of.completion_ids or ())[: len(ids)], "what was sampled is never written anew"
    assert stats.kept + stats.masked.total() + stats.dropped.total() == stats.attempts == len(attempts)
    faults = Counter(fault_of(each) for calls in attempts for each in calls)
    del faults[None]
    assert stats.faults == faults


@settings(max_examples=40)
@given(attempts=ATTEMPTS)
def test_every_sampled_token_is_trained_once_with_its_own_logprob(
    tmp_path_factory: pytest.TempPathFactory, attempts: list[list[SampledCall]]
) -> None:
    check(tmp_path_factory.mktemp("e"), attempts)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@settings(max_examples=times(75, promised=500))
@given(attempts=st.lists(conversations(), min_size=20, max_size=20))
def test_conversations_by_the_thousand_keep_every_sampled_token(
    tmp_path_factory: pytest.TempPathFactory, attempts: list[list[SampledCall]]
) -> None:
    check(tmp_path_factory.mktemp("e"), attempts)


@settings(max_examples=20)
@given(attempts=ATTEMPTS, below=st.integers(1, 8))
def test_realigning_gives_up_tokens_and_says_how_many(
    tmp_path_factory: pytest.TempPathFactory, attempts: list[list[SampledCall]], below: int
) -> None:
    anchor = [SampledCall(call_id="n", prompt_ids=[1], completion_ids=[2], logprobs=[-1.0])]
    folder = tmp_path_factory.mktemp("e")
    rows, stats = exported(folder, [*attempts, anchor], realign_below=below)
    wanted = sum(len(sampled("", calls)) for calls in [*attempts, anchor])
    assert sum(sum(row.loss_mask) for row in rows) == wanted - stats.calls["realigned_tokens"]
