"""What is trained first, and what an attempt's reward becomes before attempts are compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from rl_rows import group, row

from harness.errors import UsageError
from harness.export.schema import RLSample
from trainer.config import parse_config
from trainer.measure import Meter
from trainer.monitor.conduct import pass_numbers
from trainer.samples.batch import StepBatch
from trainer.samples.plan import Planner

GOOD, LOST = [1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, None]


def batches(groups: Iterable[Sequence[RLSample]], **settings: Any) -> list[StepBatch]:
    return list(Planner(parse_config({"groups_per_step": 1, **settings})).batches(groups))


def of(lengths: Sequence[int], rewards: Sequence[float], *, task: str = "t") -> list[RLSample]:
    """A group of attempts that sampled so many tokens."""
    pairs = enumerate(zip(lengths, rewards, strict=True), 1)
    return [
        row(reward, task=task, attempt=number, group_size=len(rewards), turns=[[8] * length])
        for number, (length, reward) in pairs
    ]


def advantages(batch: StepBatch) -> list[float]:
    return [float(each.advantage[each.mask][0]) for each in batch.rows]


def signs(made: Iterable[StepBatch]) -> list[bool]:
    """Of each step, whether it trained failures."""
    return [any(not each.positive for each in batch.rows) for batch in made]


def test_successes_come_first_and_failures_later() -> None:
    groups = [group(GOOD, task=f"t{number}") for number in range(5)]
    assert signs(batches(groups, positive_only_steps=3)) == [False, False, False, True, True]


def test_failures_are_trained_once_attempts_can_mostly_be_judged_and_then_on() -> None:
    # Windows of 4: 3/4 valid; then, one by one, whole groups. 15/16 is reached with the third of them.
    groups = [group(LOST if number in (0, 1, 2, 3, 9, 10, 11) else GOOD, task=f"t{number}") for number in range(12)]
    made = batches(groups, positive_only_until=15 / 16, breaker={"window": 4, "minimum": 4})
    assert signs(made) == [False] * 7 + [True] * 5
    assert signs(batches(groups, positive_only_until=0.8, positive_only_steps=9, breaker={"window": 4}))[8:10] == [
        False,
        True,
    ]


def test_a_planner_that_goes_on_stands_where_it_stood() -> None:
    groups = [group(LOST if number < 4 else GOOD, task=f"t{number}") for number in range(8)]
    config = parse_config(
        {"groups_per_step": 1, "positive_only_until": 15 / 16, "breaker": {"window": 4}, "rewards": {"toggle": {}}}
    )
    first, second = Planner(config), Planner(config)
    early = list(first.batches(groups[:6]))
    second.restore(first.state())
    whole = list(Planner(config).batches(groups))
    assert signs([*early, *second.batches(groups[6:], first_step=6)]) == signs(whole)


def test_successes_alone_are_neither_centred_on_themselves_nor_whitened() -> None:
    (made,) = batches([group([1, 1, 1, 1])], positive_only_steps=1, advantage="none", algo="ppo")
    assert advantages(made) == [1, 1, 1, 1]


def test_of_a_large_pool_some_attempts_of_either_kind_are_trained_against_the_whole() -> None:
    pool = group([1.0] * 2 + [0.0] * 14)
    (made,) = batches([pool], filters={"pick": 4})
    assert sorted(advantages(made)) == [-0.125, -0.125, 0.875, 0.875]
    assert made.filtered["not_picked"] == 12 and made.counts.rollouts == 4
    (again,) = batches([pool], filters={"pick": 4})
    assert [each.rollout_id for each in again.rows] == [each.rollout_id for each in made.rows]
    (few,) = batches([group([1.0] + [0.0] * 7)], filters={"pick": 4})
    assert sorted(advantages(few)) == [-0.125] * 3 + [0.875]


def test_the_flavour_of_the_std_is_a_choice() -> None:
    (sample,) = batches([group([1, 0, 0, 0])], advantage="group_std")
    (population,) = batches([group([1, 0, 0, 0])], advantage="group_std_population")
    assert advantages(sample) == pytest.approx([1.5] + [-0.5] * 3)
    assert advantages(population) == pytest.approx([1.73205] + [-0.57735] * 3, abs=1e-5)


def test_the_toggle_takes_the_reward_of_long_successes_in_every_other_phase() -> None:
    groups = [of([10, 30, 20, 50], [1, 1, 1, 0]) for _ in range(4)]
    made = batches(groups, advantage="none", rewards={"toggle": {"period": 2, "threshold": 0.5}})
    assert [advantages(each) for each in made] == [[1, 0, 1, 0]] * 2 + [[1, 1, 1, 0]] * 2


def test_a_tasks_budget_is_estimated_once_and_there_is_none_before_it_is_solved() -> None:
    groups = [of([90, 5], [0, 0]), of([10, 30], [1, 1]), of([21, 19], [1, 1]), of([99, 1], [1, 1], task="other")]
    toggle = {"period": 9, "threshold": 0.5}
    made = batches(groups, advantage="none", rewards={"toggle": toggle})
    assert [advantages(each) for each in made] == [[0, 0], [1, 0], [0, 1], [0, 1]]


def test_rewards_are_shaped_by_length_as_asked() -> None:
    (soft,) = batches([of([10, 15, 20], [1, 1, 0])], advantage="none", rewards={"overlong": [20, 10]})
    assert advantages(soft) == pytest.approx([1.0, 0.5, -1.0])
    (short,) = batches([of([10, 20, 30], [1, 1, 0])], advantage="none", rewards={"length_weight": 0.2})
    assert advantages(short) == pytest.approx([1.1, 1.0, -0.1])


def test_whether_a_group_has_signal_goes_by_what_is_learned_from() -> None:
    parts = [{"tests": 1.0, "style": 0.0}, {"tests": 1.0, "style": 1.0}]
    rows = [row(1, attempt=number, reward_parts=each) for number, each in enumerate(parts, 1)]
    (headline,) = batches([rows])
    assert headline.filtered["zero_variance"] == 1 and headline.signal == (False,)
    (weighed,) = batches([rows], rewards={"parts": {"tests": 1.0, "style": 0.5}})
    assert advantages(weighed) == [-0.25, 0.25] and weighed.signal == (True,)


def test_a_step_knows_what_was_solved_also_in_groups_that_it_left_out() -> None:
    groups = [group([1, 1, 1, 1], task="a"), group([0, 0, 0, 0], task="b"), group([1, 0, 0, 0], task="c")]
    (made,) = batches([*groups, group([None, None, None, 1], task="d")], groups_per_step=4, breaker={"broken_share": 1})
    assert made.solved[2] == (True, False, False, False) and made.signal == (False, False, True, False)
    numbers = Meter(made)
    assert numbers.loss == 0
    # pass@1 is 1, 0, 1/4; pass@4 is 1, 0, 1: Potential@4 = (1 * 0 + 0 * 1 + 1 * .75) / (0 + 1 + .75).
    told = pass_numbers(made.solved)
    assert told == {
        "pass_1": pytest.approx(5 / 12),
        "pass_any": pytest.approx(2 / 3),
        "potential": pytest.approx(3 / 7),
    }
    assert set(pass_numbers([(True,)]).values()) == {None}


def test_all_solved_leaves_no_potential_to_measure() -> None:
    assert pass_numbers([(True, True)])["potential"] is None


@pytest.mark.parametrize(
    "settings",
    [
        {"positive_only_until": 1.5},
        {"filters": {"pick": 1}},
        {"rewards": {"toggle": {"period": 0}}},
        {"advantage": "group_median"},
    ],
)
def test_a_setting_out_of_bounds_is_named(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="training: ") as caught:
        parse_config(settings)
    assert next(iter(settings)) in str(caught.value) and "\n" not in str(caught.value)
