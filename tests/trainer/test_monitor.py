"""Invariants and the diagnosis of crashes, on logs whose cause is known."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from training_logs import Log, log

from harness.errors import UsageError
from trainer.config import TrainConfig, parse_config
from trainer.monitor.history import rising_p
from trainer.monitor.invariants import Level
from trainer.monitor.metrics import METRICS, metric_of
from trainer.monitor.monitor import Event, Monitor


def events(rows: Iterable[dict[str, Any]], **monitor: Any) -> list[Event]:
    watch = Monitor(parse_config({"monitor": monitor}))
    return [event for row in rows for event in watch.observe(row).events]


def findings(rows: Log, **monitor: Any) -> list[tuple[str, int]]:
    return [(event.name, event.step) for event in events(rows, **monitor) if event.level == "found"]


def negatives(step: int) -> float:
    """40 % of 128 attempts, from step 40 to 100 growing to 70 %."""
    return 128 * (0.4 + 0.3 * min(max(step - 40, 0), 60) / 60)


@pytest.mark.parametrize("seed", range(5))
def test_a_sound_run_is_left_alone(seed: int) -> None:
    assert sorted((event.name, event.level) for event in events(log(300, seed=seed))) == [
        ("drift", "ok"),
        ("exploration", "ok"),
        ("signal", "ok"),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_failures_that_get_longer_but_not_more_are_masked_by_length(seed: int) -> None:
    rows = log(60, seed=seed, length_negative_max=lambda step: 26_000 if step >= 50 else 8_000)
    found = [event for event in events(rows) if event.level == "found"]
    assert [event.name for event in found] == ["extreme_failures"] and 50 <= found[0].step <= 52
    assert found[0].change == "filters.mask_failed_longer_than=20000"
    assert "8,000 to 26,000 tokens (x3.2)" in found[0].evidence


@pytest.mark.parametrize("seed", range(5))
def test_failures_that_get_more_are_weighed_less(seed: int) -> None:
    noise = random.Random(seed)

    def bad(step: int) -> float:
        return round(negatives(step)) + noise.randint(-3, 3)

    rows = log(120, seed=seed, negative_rollouts=bad, positive_rollouts=lambda step: 128 - negatives(step))
    found = [event for event in events(rows) if event.level == "found"]
    assert {event.name for event in found} == {"negatives_dominate"}
    assert 50 < found[0].step < 90 and found[0].change == "negative_weight=0.5"


def test_more_and_longer_failures_at_once_are_no_jump_of_length_alone() -> None:
    rows = log(
        60,
        length_negative_max=lambda step: 26_000 if step >= 50 else 8_000,
        negative_rollouts=lambda step: 96 if step >= 50 else 48,
        positive_rollouts=lambda step: 32 if step >= 50 else 80,
    )
    assert "extreme_failures" not in {name for name, _ in findings(rows)}


def test_short_attempts_are_masked_at_twice_what_is_usual() -> None:
    rows = log(60, length_negative_max=lambda step: 900 if step >= 50 else 200)
    (found,) = [event for event in events(rows) if event.level == "found"]
    assert found.change == "filters.mask_failed_longer_than=400"


def test_a_few_attempts_that_decide_alone_are_extreme_too() -> None:
    (found,) = findings(log(40, top_gradient_share=lambda step: 0.4 if step > 20 else 0.05))
    assert found[0] == "extreme_failures"


def test_circles_are_a_bad_pattern() -> None:
    rows = log(80, looped_call_share=lambda step: 0.05 + 0.006 * max(0, step - 30))
    (found,) = [event for event in events(rows) if event.level == "found"]
    assert found.name == "bad_patterns" and found.change == "filters.mask_tool_errors=true"


@pytest.mark.parametrize(
    "curves",
    [{"behaviour_k3": lambda step: 0.01 if step < 40 else 0.3}, {"entropy": lambda step: 1.0 if step < 40 else 0.1}],
)
def test_a_policy_that_runs_away_without_another_cause_is_slowed_down(
    curves: dict[str, Callable[[int], float]],
) -> None:
    told = [event for event in events(log(60, **curves), auto_remedy=True) if event.kind != "invariant"]
    assert [(event.name, event.change) for event in told[:2]] == [("moves_too_fast", "optimizer.lr=5e-7")] * 2
    assert next(iter(curves)) in told[0].evidence and 40 <= told[0].step <= 45


def test_a_sampler_that_lags_behind_is_not_the_learning_rates_doing() -> None:
    assert findings(log(60, staleness_max=lambda step: 12, mismatch_k3=lambda step: 0.05)) == []


def test_what_is_cheapest_to_mend_comes_first() -> None:
    rows = log(
        70,
        length_negative_max=lambda step: 26_000 if step >= 60 else 8_000,
        negative_gradient_share=lambda step: 0.8 if step >= 60 else 0.5,
        looped_call_share=lambda step: 0.05 + 0.01 * max(0, step - 50),
    )
    watch = Monitor(TrainConfig())
    last = [watch.observe(row) for row in rows][64]
    assert [finding.name for finding in last.findings] == ["extreme_failures", "negatives_dominate", "bad_patterns"]


def test_the_mildest_remedy_is_applied_when_asked_and_given_time() -> None:
    rows = log(80, length_negative_max=lambda step: 26_000 if step >= 50 else 8_000)
    watch = Monitor(parse_config({"monitor": {"auto_remedy": True}}))
    told = [event for row in rows for event in watch.observe(row).events if event.kind == "remedy"]
    assert [event.change for event in told] == ["filters.mask_failed_longer_than=20000", "negative_weight=0.5"]
    assert told[1].step >= told[0].step + 10
    assert watch.config.filters.mask_failed_longer_than == 20_000 and watch.config.negative_weight == 0.5
    alone = Monitor(TrainConfig())
    for row in rows:
        alone.observe(row)
    assert alone.config == TrainConfig()


def test_no_setting_is_changed_more_than_three_times() -> None:
    watch = Monitor(parse_config({"monitor": {"auto_remedy": True, "patience": 1}}))
    rows = log(400, negative_gradient_share=lambda step: 0.9)
    told = [event.change for row in rows for event in watch.observe(row).events if event.kind == "remedy"]
    assert told == [
        *("negative_weight=0.5", "negative_weight=0.25", "negative_weight=0.125"),
        *("optimizer.max_grad_norm=0.5", "optimizer.max_grad_norm=0.25", "optimizer.max_grad_norm=0.125"),
        *("optimizer.lr=5e-7", "optimizer.lr=2.5e-7", "optimizer.lr=1.25e-7"),
    ]


def test_a_change_can_be_given_to_the_command_line_as_it_is_told() -> None:
    rows = log(400, negative_gradient_share=lambda step: 0.9)
    for event in events(rows, auto_remedy=True, patience=1):
        if event.kind == "remedy" and event.change:
            key, _, value = event.change.partition("=")
            assert key in TrainConfig.model_fields or "." in key
            assert tomllib.loads(f"value = {value}")["value"] > 0


@pytest.mark.parametrize(
    ("curves", "invariant"),
    [
        ({"entropy": lambda step: 1.0 if step < 40 else 0.2}, "exploration"),
        ({"strategies": lambda step: 4.0 if step < 40 else 1.0}, "exploration"),
        ({"unique_sequences": lambda step: 0.9 if step < 40 else 0.1}, "exploration"),
        ({"invalid_call_share": lambda step: 0.02 if step < 40 else 0.08}, "exploration"),
        ({"effective_group_ratio": lambda step: 0.7 if step < 40 else 0.0}, "signal"),
        ({"negative_token_share": lambda step: 0.5 if step < 40 else 0.9}, "signal"),
        ({"mismatch_k3": lambda step: 1e-8 if step < 40 else 0.05}, "drift"),
        ({"behaviour_k3": lambda step: 0.01 if step < 40 else 0.3}, "drift"),
        ({"ess": lambda step: 0.9 if step < 40 else 0.1}, "drift"),
        ({"staleness_max": lambda step: 1 if step < 40 else 12}, "drift"),
    ],
)
def test_an_invariant_that_is_lost_is_told_within_its_window(
    curves: dict[str, Callable[[int], float]], invariant: str
) -> None:
    told = [event for event in events(log(60, **curves)) if event.kind == "invariant" and event.level == "alarm"]
    assert [event.name for event in told] == [invariant] and 40 <= told[0].step <= 45
    assert next(iter(curves)) in told[0].evidence


def test_an_invariant_recovers_and_warns_before_it_alarms() -> None:
    rows = log(90, entropy=lambda step: 1.0 if step < 40 or step > 70 else 1 - 0.03 * (step - 40))
    told = [event.level for event in events(rows) if event.name == "exploration"]
    assert told == ["ok", "warn", "alarm", "warn", "ok"]


def test_the_total_collapse_that_was_seen_alarms_twice() -> None:
    rows = log(
        40,
        reward_mean=lambda step: 0.1 if step < 10 else 0.0,
        entropy=lambda step: max(0.0, 0.35 - 0.015 * step),
        effective_group_ratio=lambda step: max(0.0, 0.56 - 0.03 * step),
    )
    assert {event.name for event in events(rows) if event.level == "alarm"} == {"exploration", "signal"}


def test_a_run_that_solved_its_tasks_has_no_signal_left_and_is_sound() -> None:
    rows = log(60, reward_mean=lambda step: 0.97, effective_group_ratio=lambda step: 0.05)
    assert "alarm" not in {event.level for event in events(rows)}


def test_what_is_unknown_is_neither_sound_nor_an_alarm() -> None:
    watch = Monitor(TrainConfig())
    last = [watch.observe({"step": step, "entropy": None}) for step in range(1, 30)][-1]
    assert {reading.level for reading in last.readings.values()} == {Level.UNKNOWN} and not last.findings


def test_an_alarm_may_end_the_run_with_its_reason() -> None:
    watch = Monitor(parse_config({"monitor": {"halt_on": ["drift"]}}))
    halts = [watch.observe(row).halt for row in log(40, ess=lambda step: 0.9 if step < 20 else 0.05)]
    first = next(halt for halt in halts if halt)
    assert first.startswith("drift is lost: ess 0.") and "alarm below 0.3" in first


def test_a_watch_fed_with_its_log_stands_where_it_stood() -> None:
    rows = log(90, length_negative_max=lambda step: 26_000 if step >= 50 else 8_000)
    config = parse_config({"monitor": {"auto_remedy": True}})
    whole, resumed = Monitor(config), Monitor(config)
    told = [event for row in rows for event in whole.observe(row).events]
    again = [event for row in rows[:55] for event in resumed.observe(row).events]
    assert resumed.config.filters.mask_failed_longer_than == 20_000
    again += [event for row in rows[55:] for event in resumed.observe(row).events]
    assert again == told and resumed.config == whole.config


def test_thresholds_are_settings_and_an_unknown_one_is_one_line() -> None:
    rows = log(30, ess=lambda step: 0.6)
    strict = {"ess": {"warn": 0.7, "alarm": 0.65}}
    assert "alarm" in {event.level for event in events(rows, thresholds=strict)}
    with pytest.raises(UsageError, match="no invariant looks at 'es'"):
        parse_config({"monitor": {"thresholds": {"es": {"warn": 1}}}})


def test_a_trend_by_hand() -> None:
    # n = 5, all ten pairs rise: S = 10, variance 50/3, z = 9 / 4.0825 = 2.2045.
    assert rising_p([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(0.01374, abs=5e-6)
    assert rising_p([5.0, 4.0, 3.0]) == 1 and rising_p([2.0, 2.0, 2.0]) == 1


def test_every_number_that_is_looked_at_is_in_the_table_once() -> None:
    from trainer.monitor.invariants import RULES

    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    assert all(metric_of(rule.metric) is not None for rule in RULES)
    assert metric_of("filtered_stale") is metric_of("filtered_zero_variance") and metric_of("nonsense") is None
