"""The loop under a long tail: what collecting side by side with training wins, and whether its bounds hold.

    PYTHONPATH=. pytest -s tests/benchmarks/bench_loop.py

Attempts are simulated, in virtual time: Pareto delays (shape 1.2, cut off at 60 times the least) on 64 slots, 16 groups
of 8 a step, and a training step that takes half as long as the slots need for its attempts. What is real is the loop:
its groups, window, ledger and waits. The ideal is 64 slots that are never empty and run every attempt to its end;
redundant attempts can exceed it, since they cut the tail off.

Limits: twice the synchronous loop and 90 % of the ideal, the window and the bound on age held.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from loop_parts import Simulated, Trainer, loop_config, pareto, pipeline
from virtual_time import run_virtual

SLOTS, GROUPS, ATTEMPTS = 64, 16, 8
SHAPE, CUT = 1.2, 60.0
TRAINING = 0.5
"""Of a training step, as a share of the time that the slots need for its attempts."""


_EDGE = 10
"""Steps at either end that are not counted: there the slots fill and empty."""


def expected(shape: float = SHAPE, cut: float = CUT) -> float:
    """The mean of min(Pareto, cut), in units of the least delay."""
    return 1 + (1 - cut ** (1 - shape)) / (shape - 1)


async def one(folder: Path, steps: int, **collect: Any) -> dict[str, float]:
    """One loop; its numbers."""
    given = {"groups": GROUPS, "attempts": ATTEMPTS, **collect}
    config = loop_config(steps=steps, collect=given)
    rollouts = Simulated(seconds=pareto(7, shape=SHAPE, least=1.0, most=CUT), slots=SLOTS)
    trainer = Trainer(seconds=TRAINING * GROUPS * ATTEMPTS / SLOTS * expected())
    clock = asyncio.get_running_loop().time
    folder.mkdir()
    with pipeline(folder, rollouts, trainer, config, tasks=400, clock=clock) as loop:
        await loop.run()
        shares, lost = loop.waits.shares(), loop.state.lost.total()
    seconds = (trainer.times[-_EDGE] - trainer.times[_EDGE]) / (steps - 2 * _EDGE)
    return {
        "steps_per_hour": 3600 / seconds,
        "of_ideal": GROUPS * ATTEMPTS * expected() / SLOTS / seconds,
        "slots_busy": rollouts.busy / (SLOTS * trainer.times[-1]),
        "staleness_mean": mean(trainer.staleness),
        "staleness_max": max(trainer.staleness),
        "bound": config.collect.async_ratio,
        "lost": lost / loop.state.started,
        **shares,
    }


LOOPS: dict[str, dict[str, Any]] = {
    "synchronous": {},
    "synchronous, 2 redundant": {"redundant": 2},
    "async_ratio 1": {"async_ratio": 1},
    "async_ratio 2": {"async_ratio": 2},
    "async_ratio 4": {"async_ratio": 4},
    "async_ratio 4, FIFO": {"async_ratio": 4, "window": 0.001},
    "async_ratio 4, greedy": {"async_ratio": 4, "window": 1.0},
    "async_ratio 2, 1 redundant": {"async_ratio": 2, "redundant": 1},
    "async_ratio 4, 1 redundant": {"async_ratio": 4, "redundant": 1},
    "async_ratio 8": {"async_ratio": 8},
}


@pytest.mark.timeout(600)
def test_side_by_side_is_twice_as_fast_as_in_turn_and_near_the_ideal(tmp_path: Path) -> None:
    print(
        f"\n{'':28}{'steps/h':>8}{'speed-up':>9}{'of ideal':>9}{'slots':>7}{'age, bound':>12}{'lost':>6}"
        f"{'starved':>9}{'training':>9}{'idle':>6}"
    )
    found = {}
    for name, collect in LOOPS.items():
        found[name] = each = run_virtual(one(tmp_path / name, 60, **collect))
        speed_up = each["steps_per_hour"] / found["synchronous"]["steps_per_hour"]
        print(
            f"{name:28}{each['steps_per_hour']:>8.1f}{speed_up:>9.2f}{each['of_ideal']:>9.0%}{each['slots_busy']:>7.0%}"
            f"{each['staleness_mean']:>6.2f} <={each['bound']:>3.0f}{each['lost']:>6.0%}"
            f"{each['starved']:>9.0%}{each['training']:>9.0%}{each['idle']:>6.0%}"
        )
        assert each["staleness_max"] <= each["bound"], name
    for name in ("async_ratio 2, 1 redundant", "async_ratio 4", "async_ratio 8"):
        assert found[name]["steps_per_hour"] >= 2 * found["synchronous"]["steps_per_hour"], name
    for name in ("async_ratio 4, 1 redundant", "async_ratio 8"):
        assert found[name]["of_ideal"] >= 0.9, name
