"""The promise of `harness run --sequential`: how often it is wrong, how often it decides, and what it saves.

Tasks from a Beta with the given mean (as much variance between attempts of a task as between tasks), 200 tasks, a
threshold of 0.7, alpha 0.05, 1,000 replications of each row.
"""

from __future__ import annotations

import math
import random

import pytest

from evals.sequential import success_rate
from harness.job.early import Decision, TaskCounts

REPLICATIONS, TASKS, THRESHOLD, ALPHA = 1000, 200, 0.7, 0.05

PROMISED = {
    (0.60, 1): (0.0, 0.62),
    (0.65, 3): (0.0, 0.27),
    (0.70, 1): (0.035, 0.035),
    (0.70, 3): (0.025, 0.03),
    (0.75, 3): (0.33, 0.0),
    (0.80, 3): (0.93, 0.0),
    (0.85, 1): (1.0, 0.0),
}
"""(mean rate, attempts): shares of jobs called above and below the threshold."""


def job(draw: random.Random, mean: float, attempts: int) -> Decision | None:
    """One job, its tasks in random order."""
    rule = success_rate(THRESHOLD, ALPHA)
    for _ in range(TASKS):
        rate = draw.betavariate(mean, 1 - mean)
        passed = sum(draw.random() < rate for _ in range(attempts))
        if (decision := rule.add(TaskCounts(passed, attempts, attempts))) is not None:
            return decision
    return None


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "attempts"), PROMISED)
def test_a_job_is_called_wrongly_at_most_as_often_as_alpha(mean: float, attempts: int) -> None:
    draw = random.Random(attempts)
    found = [job(draw, mean, attempts) for _ in range(REPLICATIONS)]
    above = sum(each is not None and each.above for each in found) / REPLICATIONS
    below = sum(each is not None and not each.above for each in found) / REPLICATIONS
    taken = sum(TASKS if each is None else each.tasks for each in found) / REPLICATIONS
    print(f"\nmean {mean:.2f} x {attempts}: above {above:.1%}, below {below:.1%}, {taken:.0f} of {TASKS} tasks", end="")
    noise = 4 * math.sqrt(0.05 * 0.95 / REPLICATIONS)
    assert (above if mean < THRESHOLD else below) <= ALPHA + noise / 2
    assert (above, below) == pytest.approx(PROMISED[mean, attempts], abs=0.06)
