"""Collecting and training side by side: bounds on age and order, groups that never wait, and going on after a crash."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_parts import Simulated, Trainer, listener, loop_config, pareto, pipeline

from harness.errors import UsageError
from trainer.online.config import read_loop
from trainer.online.ledger import Ledger, State
from trainer.online.sampler import Sampler


async def test_with_ratio_0_every_group_is_sampled_from_the_weights_that_it_trains(tmp_path: Path) -> None:
    trainer = Trainer(seconds=0.002)
    config = loop_config(steps=6, collect={"groups": 3, "attempts": 2})
    with pipeline(tmp_path, Simulated(seconds=pareto(1, least=0.001, most=0.01)), trainer, config) as loop:
        assert await loop.run() is None
    assert trainer.staleness == [0] * 18
    assert trainer.published == [1, 2, 3, 4, 5, 6]
    assert sorted(trainer.trained) == list(range(18))


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    ratio=st.integers(0, 3),
    groups=st.integers(1, 4),
    window=st.sampled_from([0.01, 0.3, 1.0]),
)
def test_no_group_is_trained_that_is_older_than_the_ratio_or_came_from_beyond_the_window(
    seed: int, ratio: int, groups: int, window: float
) -> None:
    config = loop_config(steps=8, collect={"groups": groups, "attempts": 2, "async_ratio": ratio, "window": window})
    trainer = Trainer()
    delays = Random(seed)

    async def go(folder: Path) -> State:
        rollouts = Simulated(seconds=lambda task, number: delays.choice([0, 0, 0.001, 0.01]), slots=6)
        with pipeline(folder, rollouts, trainer, config) as loop:
            assert await loop.run() is None
            return loop.state

    with TemporaryDirectory() as folder:
        state = asyncio.run(go(Path(folder)))
    assert max(trainer.staleness) <= ratio
    assert len(set(trainer.trained)) == len(trainer.trained) == 8 * groups
    assert not state.lost.keys() - {"stale"}
    width = max(1, math.floor(window * (ratio + 1) * groups))
    done = set(range(state.started)) - set(trainer.trained)  # lost ones and those left at the end count as consumed
    for number in trainer.trained:
        head = next(each for each in range(state.started + 1) if each not in done)
        assert number < head + width
        done.add(number)


async def test_training_goes_on_while_a_group_hangs_within_the_window(tmp_path: Path) -> None:
    trainer = Trainer()
    config = loop_config(
        steps=6, collect={"groups": 2, "attempts": 2, "async_ratio": 3, "window": 0.5, "deadline_sec": 0.2}
    )
    hangs = Simulated(seconds=lambda task, number: math.inf if (task, number) == first[0] else 0.001)
    first = [(Sampler([f"t{number}" for number in range(5)], config).next_wave()[0][0], 1)]
    with pipeline(tmp_path, hangs, trainer, config) as loop:
        assert await loop.run() is None
        assert loop.state.lost.total() >= 1
    assert 0 not in trainer.trained and len(trainer.trained) == 12
    assert hangs.cancelled[first[0]]


@pytest.mark.case("G5")
async def test_a_group_is_done_with_its_first_attempts_and_the_others_are_told_why_they_end(tmp_path: Path) -> None:
    rollouts = Simulated(seconds=lambda task, number: math.inf if number in (1, 4) else 0.001)
    trainer = Trainer()
    config = loop_config(steps=1, collect={"groups": 1, "attempts": 4, "redundant": 2})
    with pipeline(tmp_path, rollouts, trainer, config, tasks=1) as loop:
        await loop.run()
    (group,) = trainer.leases[0].groups
    assert [attempt.number for attempt in group.attempts] == [2, 3, 5, 6]
    assert group.size == 4
    assert rollouts.cancelled == {("t0", n): "enough others of its group were faster" for n in (1, 4)}


async def test_a_failed_attempt_is_replaced_by_a_redundant_one_and_counted_where_there_is_none(tmp_path: Path) -> None:
    trainer = Trainer()
    rollouts = Simulated(reward=lambda task, number: None if number <= 2 else 1.0)
    config = loop_config(steps=1, collect={"groups": 1, "attempts": 4, "redundant": 1})
    with pipeline(tmp_path, rollouts, trainer, config, tasks=1) as loop:
        await loop.run()
    (group,) = trainer.leases[0].groups
    assert [(each.number, each.reward) for each in group.attempts] == [(1, None), (3, 1.0), (4, 1.0), (5, 1.0)]


async def test_a_group_in_rounds_ends_when_it_has_something_to_teach(tmp_path: Path) -> None:
    trainer = Trainer()
    rollouts = Simulated(reward=lambda task, number: float(number >= 7))
    config = loop_config(
        steps=1, collect={"groups": 1, "attempts": 4}, budget={"rule": "ada", "per_round": 4, "rounds": 4}
    )
    with pipeline(tmp_path, rollouts, trainer, config, tasks=1) as loop:
        await loop.run()
    (group,) = trainer.leases[0].groups
    assert group.rewards == [0.0] * 6 + [1.0] * 2  # two of either kind: after the second round
    kept = [each for each in group.attempts if each.trial not in group.left_out]
    assert sorted(each.reward or 0.0 for each in kept) == [0.0, 0.0, 1.0, 1.0]


class Killed(Exception):
    """As a kill would: nothing of the loop runs after it."""


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), ratio=st.integers(0, 2), torn=st.booleans())
def test_a_loop_killed_at_any_moment_goes_on_and_trains_no_group_twice_and_loses_none(
    seed: int, ratio: int, torn: bool
) -> None:
    """Killed after each of its first events: the file ends there, perhaps within a line."""
    config = loop_config(steps=5, collect={"groups": 2, "attempts": 2, "async_ratio": ratio, "redundant": 1})
    random = Random(seed)

    async def session(folder: Path, events: int = 1_000_000) -> State:
        rollouts = Simulated(seconds=lambda task, number: random.choice([0, 0.001]), slots=3)
        with pipeline(folder, rollouts, Trainer(), config) as loop:
            append, left = loop._ledger._append, events

            def counted(event: Mapping[str, object]) -> None:
                nonlocal left
                if not left:
                    raise Killed
                left -= 1
                append(event)

            loop._ledger._append = counted  # type: ignore[method-assign]
            with suppress(Killed):
                await loop.run()
            return loop.state

    with TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(3):
            asyncio.run(session(folder, random.randint(1, 25)))
            if torn:
                with (folder / "ledger.jsonl").open("ab") as file:
                    file.write(b'{"event": "fini')
        state = asyncio.run(session(folder))
        with Ledger(folder / "ledger.jsonl") as again:
            assert again.state == state
    trained = [group.number for lease in state.leases.values() for group in lease.groups]
    assert list(state.leases) == [1, 2, 3, 4, 5]
    assert len(trained) == len(set(trained)) == 10
    known = [*trained, *state.ready, *state.open]
    assert len(known) + state.lost.total() == state.started and len(set(known)) == len(known)
    for lease in state.leases.values():
        assert all(lease.step - 1 - group.version <= ratio for group in lease.groups)


def test_a_damaged_ledger_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").write_text('{"event": "planned", "groups": []}\n{"event": "started"}\n')
    with pytest.raises(UsageError, match=r"ledger.jsonl:2 is damaged"):
        Ledger(tmp_path / "ledger.jsonl")


def test_a_sampler_that_hears_the_ledger_again_plans_the_same_waves(tmp_path: Path) -> None:
    config = loop_config(steps=6, collect={"groups": 3, "attempts": 4}, budget={"rule": "vip", "rest": 2})
    rollouts = Simulated(reward=lambda task, number: float(task in ("t0", "t1") or number % 3 == 0))
    with pipeline(tmp_path, rollouts, Trainer(), config) as loop:
        asyncio.run(loop.run())
    again = Sampler([f"t{number}" for number in range(5)], config)
    with Ledger(tmp_path / "ledger.jsonl", listener(again)):
        pass
    assert [loop._sampler.next_wave() for _ in range(5)] == [again.next_wave() for _ in range(5)]


def test_the_example_is_a_request_that_can_be() -> None:
    config = read_loop(Path(__file__).parents[2] / "examples/loop.toml")
    assert (config.collect.in_flight, config.training.filters.max_staleness) == (8, 1)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"collect": {"group": 3}}, "collect.group: there is no such setting"),
        ({"steps": 0}, "steps: Input should be greater than or equal to 1"),
        ({"train": {"steps": 3}}, "train.steps follows from the loop's own settings"),
        ({"train": {"algo": "grrpo"}}, "training: algo: there is no algorithm 'grrpo'"),
        ({"budget": {"rule": "vip", "low": 9}}, "budget.low to budget.high, 9 to 32, has to hold collect.attempts"),
        ({"budget": {"rule": "ada", "per_round": 2, "rounds": 2}}, "has to reach collect.attempts"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        loop_config(**changes)
