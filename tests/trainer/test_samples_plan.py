"""From groups to the batch of a step: what is left out, what it is compared with, what it weighs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rl_rows import group, row

from harness.errors import UsageError
from harness.export.schema import RLSample
from trainer.config import parse_config
from trainer.monitor.conduct import conduct_numbers
from trainer.samples.batch import StepBatch
from trainer.samples.plan import Planner


def batch(groups: Sequence[Sequence[RLSample]], *, version: int | None = None, **settings: Any) -> StepBatch:
    settings.setdefault("groups_per_step", len(groups))
    (only,) = Planner(parse_config(settings)).batches(groups, version=version)
    return only


def advantages(made: StepBatch) -> list[float]:
    return [float(each.advantage[each.mask][0]) for each in made.rows]


def test_an_attempt_that_infrastructure_took_is_in_no_mean_and_no_count() -> None:
    whole = batch([group([1, 0, 1])])
    broken = batch([group([1, 0, 1, None])])
    assert advantages(broken) == advantages(whole) == pytest.approx([1 / 3, -2 / 3, 1 / 3])
    assert broken.counts == whole.counts
    assert [each.weight for each in broken.rows] == [each.weight for each in whole.rows]
    assert broken.filtered["infra_oom"] == 1


def test_groups_that_tell_attempts_apart_by_nothing_leave_no_trace() -> None:
    alone = batch([group([1, 0, 0, 1])])
    made = batch([group([1, 1, 1, 1], task="a"), group([1, 0, 0, 1]), group([0, 0, 0, 0], task="b")])
    assert made.filtered["zero_variance"] == 2
    assert made.counts == alone.counts and advantages(made) == advantages(alone)
    assert len(made.rewards) == 12  # what was earned is told all the same


def test_a_group_of_one_is_named() -> None:
    assert batch([group([1])]).filtered == {"single": 1}


def test_stale_attempts_go_by_their_oldest_version() -> None:
    rows = [row(1, attempt=1, versions=("3", "5", "6")), row(0, attempt=2, versions=("6",)), row(0, attempt=3)]
    rows[2] = row(0, attempt=3, versions=("7",))
    kept = batch([rows], version=8, filters={"max_staleness": 5})
    assert len(kept.rows) == 3
    dropped = batch([[*rows, row(1, attempt=4, versions=("8",))]], version=8, filters={"max_staleness": 4})
    assert dropped.filtered["stale"] == 1
    assert advantages(dropped) == pytest.approx([-1 / 3, -1 / 3, 2 / 3])


def test_failures_that_ran_too_long_are_masked_but_stay_in_the_mean() -> None:
    rows = [
        row(1, attempt=1),
        row(0, attempt=2, turns=[[8] * 30]),
        row(0, attempt=3),
        row(1, attempt=4, turns=[[8] * 30]),
    ]
    made = batch([rows], filters={"mask_failed_longer_than": 20})
    assert made.filtered["failed_too_long"] == 1
    assert advantages(made) == [0.5, -0.5, 0.5]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"top_p": 0.9}, "truncated_sampling"),
        ({"top_k": 20}, "truncated_sampling"),
        ({"temperature": 0.7, "logprobs_mode": None}, "unknown_logprobs_mode"),
        ({"finish_reason": "length"}, "truncated"),
    ],
)
def test_each_filter_has_its_name(change: dict[str, Any], name: str) -> None:
    made = batch(
        [[row(1, attempt=1, **change), row(0, attempt=2), row(1, attempt=3)]], filters={"mask_truncated": True}
    )
    assert made.filtered[name] == 1
    assert len(made.rows) == 2


def test_processed_log_probabilities_are_compared_at_their_temperature_and_raw_ones_at_one() -> None:
    rows = [
        row(1, attempt=1, temperature=0.7, logprobs_mode="processed"),
        row(0, attempt=2, temperature=0.7, logprobs_mode="raw"),
    ]
    assert [each.temperature for each in batch([rows]).rows] == pytest.approx([0.7, 1.0])


def test_groups_may_be_padded_where_more_than_half_is_valid() -> None:
    five = batch([group([1, 0, 1, 0, 1, None, None, None])], filters={"incomplete": "pad"}, breaker={"limit": 1})
    assert five.counts.rollouts == 8
    assert len({each.rollout_id for each in five.rows}) == 8
    four = batch(
        [group([1, 0, 1, 0, None, None, None, None])], filters={"incomplete": "pad"}, breaker={"broken_share": 1}
    )
    assert four.filtered["incomplete"] == 1 and not four.rows


def test_the_difficulty_band_keeps_what_is_neither_solved_nor_hopeless() -> None:
    groups = [group([1, 0, 0, 0], task="hard"), group([1, 1, 1, 0], task="easy")]
    assert {each.group_id for each in batch(groups, filters={"difficulty": (0.2, 0.6)}).rows} == {"hard"}


def test_positive_only_steps_learn_from_successes_against_the_batch() -> None:
    groups = [group([1, 1, 1, 1], task="a"), group([0, 0, 0, 0], task="b"), group([1, 0, 0, 1], task="c")]
    made = batch(groups, positive_only_steps=1)
    assert all(each.positive for each in made.rows)
    assert advantages(made) == pytest.approx([0.5] * 6)


def test_failures_may_weigh_less() -> None:
    assert advantages(batch([group([1, 0])], negative_weight=0.25)) == [0.5, -0.125]


def test_ipa_discounts_by_chunk_from_the_end() -> None:
    rows = [row(1, attempt=1, turns=[[8], [9], [10], [11]]), row(0, attempt=2)]
    made = batch([rows], algo="ipa", gamma=0.9, advantage="none")
    assert made.rows[0].advantage[made.rows[0].mask].tolist() == pytest.approx([0.729, 0.81, 0.9, 1])


def test_reward_parts_are_weighed_as_asked() -> None:
    rows = [
        row(1, attempt=1, reward_parts={"tests": 1.0, "style": 0.0}),
        row(0, attempt=2, reward_parts={"tests": 0.0, "style": 1.0}),
    ]
    assert advantages(batch([rows], rewards={"parts": {"tests": 1.0, "style": 0.5}})) == pytest.approx([0.25, -0.25])


def test_branches_of_one_attempt_share_its_weight_in_the_mean_of_means() -> None:
    branches = [row(1, attempt=1, branch=number, n_branches=2) for number in (0, 1)]
    made = batch([[*branches, row(0, attempt=2)]], algo="grpo")
    total = {0: 0.0, 1: 0.0}
    for each in made.rows:
        total[int(each.positive)] += each.weight * each.trained
    assert total == pytest.approx({0: 0.5, 1: 0.5})


def test_too_much_broken_infrastructure_halts_with_its_reason() -> None:
    planner = Planner(parse_config({"groups_per_step": 4}))
    made = list(planner.batches(group([None, None, 1, 0], task=f"t{number}") for number in range(40)))
    assert not made and planner.halted is not None and "16 of the last 16 groups" in planner.halted


def test_what_stands_at_masked_positions_never_matters() -> None:
    clean = batch([group([1, 0])])
    assert all(np.isnan(each.behaviour[~each.mask]).all() for each in clean.rows)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"algo": "grop"}, "there is no algorithm 'grop'"),
        ({"algo": "dr_grpo"}, "max_tokens"),
        ({"correction": {"kind": "tis"}}, "count the sampler's mismatch twice"),
        ({"objective": {"epsilon": 0.2}}, "epsilon"),
        ({"optimizer": {"lr": -1}}, "optimizer.lr"),
    ],
)
def test_a_wrong_setting_is_one_line(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match="training") as caught:
        parse_config(settings)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def with_tools(sample: RLSample, *turns: tuple[tuple[str, ...], int | None]) -> RLSample:
    """The row whose sampled turns called these tools, with so many failures."""
    told = iter(turns)
    spans = [
        replace(span, tools=tools, tool_errors=errors)
        for span in sample.spans
        for tools, errors in [next(told) if span.kind == "sampled" else (None, None)]
    ]
    return replace(sample, spans=tuple(spans))


def test_turns_whose_tool_calls_failed_are_masked_and_the_others_are_trained() -> None:
    turns = [(("bash:ls",), 1), (("bash:cat",), 0), (("read",), None)]
    rows = [with_tools(row(1, attempt=1, turns=[[8, 9], [10], [11]]), *turns), row(0, attempt=2)]
    made = batch([rows], filters={"mask_tool_errors": True})
    assert made.filtered["tool_error_turns"] == 1
    assert made.rows[0].token_ids[made.rows[0].mask].tolist() == [10, 11]
    assert made.counts.tokens == 4 and advantages(made) == [0.5, -0.5]
    assert batch([rows]).counts.tokens == 6 and not batch([rows]).filtered


def test_an_attempt_of_failed_turns_alone_is_out_of_the_loss_and_in_the_mean() -> None:
    rows = [row(1, attempt=1), with_tools(row(0, attempt=2), (("bash",), 2)), row(1, attempt=3)]
    made = batch([rows], filters={"mask_tool_errors": True})
    assert len(made.rows) == 2 and advantages(made) == pytest.approx([1 / 3, 1 / 3])


def test_a_step_knows_what_was_called() -> None:
    counts = {"tool_calls": 4.0, "judged_calls": 4.0, "failed_calls": 1.0, "invalid_calls": 0.0, "looped_calls": 2.0}
    rows = [
        with_tools(row(1, attempt=1, behaviour=counts), (("bash:ls", "read"), 0)),
        with_tools(row(0, attempt=2, behaviour=counts), (("bash:make",), 1)),
        row(0, attempt=3, behaviour={"tool_calls": 9.0}),
    ]
    made = batch([rows])
    assert made.sequences == ((("bash:ls", "read"), ("bash:make",)),)
    numbers = conduct_numbers(made.sequences, made.calls)
    assert numbers["unique_sequences"] == 1 and numbers["failed_call_share"] == 0.25
    assert numbers["looped_call_share"] == 0.5 and numbers["invalid_call_share"] == 0
    assert set(conduct_numbers(batch([group([1, 0])]).sequences, {}).values()) == {None}
