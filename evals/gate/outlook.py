"""What a comparison of this size can see, and what more attempts would buy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, pvariance

from evals.difference import Totals
from evals.gate.policy import Metric, Policy
from evals.stats.power import attempts_needed, paired_mde, quantile, within_variance

POWER = 0.8
MORE = 2


@dataclass(frozen=True, slots=True)
class Outlook:
    """Attributes:
    mde: the smallest drop found with 80 % power.
    attempts: per task, now. chance: that an unchanged agent passes the gate with them; chance_more: with two more.
    needed: attempts per task with which a drop of the margin is found, and an unchanged agent passes, 80 % of the
        time; None where no number is enough.
    """

    mde: float
    tasks: int
    attempts: int
    chance: float
    chance_more: float
    needed: int | None


def outlook(pairs: Sequence[tuple[Totals, Totals]], policy: Policy) -> Outlook | None:
    """None where attempts did not vary, so that there is nothing to estimate from."""
    tasks = len(pairs)
    attempts = min(n for pair in pairs for _, n in pair)
    within = None
    if policy.metric is Metric.SUCCESS:
        within = within_variance([(int(passed), n) for pair in pairs for passed, n in pair])
    if within is None:  # rewards, or single attempts: how far the tasks' changes spread is taken for noise
        changes = [new / n1 - base / n0 for (base, n0), (new, n1) in pairs]
        within = pvariance(changes) / 2 * attempts
    if within == 0:
        return None

    def chance(each: int) -> float:
        error = math.sqrt(2 * within / each / tasks)
        return NormalDist().cdf(policy.margin / error - quantile(1 - policy.alpha))

    return Outlook(
        mde=paired_mde(tasks, attempts, within, alpha=policy.alpha, power=POWER),
        tasks=tasks,
        attempts=attempts,
        chance=chance(attempts),
        chance_more=chance(attempts + MORE),
        needed=attempts_needed(tasks, policy.margin, within, alpha=policy.alpha, power=POWER),
    )


def attempts_if_nothing_varies(tasks: int, policy: Policy) -> int:
    """Attempts per task with which a run whose every attempt passes again rules out a drop of the margin."""
    square = quantile(1 - policy.alpha) ** 2
    return math.floor(square * (1 - policy.margin) / policy.margin / tasks) + 1
