"""The gate on simulated runs: how often it says what, if the agent got worse by so much, or did not."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean

from evals.difference import Counts
from evals.gate.policy import Policy
from evals.gate.rule import Verdict, read


def shares(
    rates: Callable[[random.Random], Sequence[float]],
    *,
    attempts: int,
    drop: float,
    policy: Policy,
    replications: int = 1000,
    seed: int = 0,
) -> dict[Verdict, float]:
    """The share of each verdict when every task's rate falls in proportion, so that their mean falls by `drop`.

    `rates` draws the tasks' true rates anew for each replication, or returns the same ones.
    """
    draw = random.Random(seed)  # noqa: S311
    found: Counter[Verdict] = Counter()
    for _ in range(replications):
        before = rates(draw)
        kept = max(0.0, 1 - drop / mean) if (mean := fmean(before)) else 1.0
        pairs = [(_attempts(p, attempts, draw), _attempts(p * kept, attempts, draw)) for p in before]
        found[read(pairs, policy).verdict] += 1
    return {verdict: found[verdict] / replications for verdict in (Verdict.FAIL, Verdict.PASS, Verdict.INCONCLUSIVE)}


def _attempts(rate: float, attempts: int, draw: random.Random) -> Counts:
    return sum(draw.random() < rate for _ in range(attempts)), attempts


def rates_of(counts: Sequence[Counts]) -> Callable[[random.Random], list[float]]:
    """True rates as a run's counts let one think of them: drawn per task from the posterior under a fitted Beta prior.

    The prior's mean is the run's, and its strength follows from how far tasks spread beyond the noise of their
    attempts, so that 3 of 3 becomes likely high, not certain. With single attempts the spread is unknown: then the
    prior is as strong as one attempt.
    """
    mean = (sum(c for c, _ in counts) + 0.5) / (sum(n for _, n in counts) + 1)
    strength = _strength(counts, mean)
    a, b = mean * strength, (1 - mean) * strength

    def draw_rates(draw: random.Random) -> list[float]:
        return [draw.betavariate(a + c, b + n - c) for c, n in counts]

    return draw_rates


def _strength(counts: Sequence[Counts], mean: float) -> float:
    """a + b of the Beta prior, by moments: E p(1-p) = m(1-m)·s/(s+1)."""
    within = [c * (n - c) / (n * (n - 1)) for c, n in counts if n > 1]
    if not within:
        return 1.0
    ratio = min(0.98, max(0.02, fmean(within) / (mean * (1 - mean))))
    return ratio / (1 - ratio)
