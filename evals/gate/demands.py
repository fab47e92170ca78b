"""What a policy demands besides no regression, each as lines that say where it is not met."""

from __future__ import annotations

from fnmatch import fnmatchcase

from evals.compare import Comparison, Pairs, counts_of, pairs_of, rewards_of
from evals.difference import Totals, points
from evals.gate.policy import Metric, Policy
from evals.gate.rule import read
from evals.run import TaskRun
from evals.stats.intervals import clustered_wilson
from evals.stats.multiplicity import holm


def totals_of(pairs: Pairs, policy: Policy) -> list[tuple[Totals, Totals]]:
    """What the rule reads of each pair."""
    return rewards_of(pairs) if policy.metric is Metric.REWARD else [*counts_of(pairs)]


def floors_missed(pairs: Pairs, policy: Policy) -> list[str]:
    """The floors of which even the upper bound of the rate falls short."""
    asked = [("the success rate", pairs, policy.floor, 1)] if policy.floor is not None else []
    asked += [(f"category {f.category}", pairs_of(pairs, f.category), f.rate, f.min_tasks) for f in policy.floors]
    found = []
    for what, of, floor, min_tasks in asked:
        interval = clustered_wilson([[True] * new.passed + [False] * (new.counted - new.passed) for _, new in of])
        if floor is not None and interval is not None and len(of) >= min_tasks and interval[1] < floor:
            found.append(f"{what} is below its floor of {floor:.1%}: at most {interval[1]:.1%} on {len(of)} tasks")
    return found


def pinned_worse(pairs: Pairs, policy: Policy) -> list[str]:
    """The pinned categories that regressed, all of them tested together (Holm)."""
    groups = [(category, pairs_of(pairs, category)) for category in policy.pinned]
    readings = [(category, read(totals_of(of, policy), policy)) for category, of in groups if of]
    adjusted = holm([reading.p for _, reading in readings])
    return [
        f"pinned category {category} fell by {points(-reading.difference)} (Holm p = {p:.2g})"
        for (category, reading), p in zip(readings, adjusted, strict=True)
        if p <= policy.alpha and -reading.difference >= policy.min_effect - 1e-12
    ]


def must_pass_broken(pairs: Pairs, policy: Policy) -> list[str]:
    """The tasks that passed every attempt before and fail every one now, though they must not."""
    return [
        f"{new.name} must pass: {base.passed} of {base.counted} attempts passed before, 0 of {new.counted} now"
        for base, new in pairs
        if _must_pass(new, policy) and base.passed == base.counted and new.passed == 0
    ]


def _must_pass(task: TaskRun, policy: Policy) -> bool:
    tagged = not set(task.tags).isdisjoint(policy.must_pass_tags)
    return tagged or any(fnmatchcase(task.name, pattern) for pattern in policy.must_pass)


def too_dear(comparison: Comparison, policy: Policy) -> list[str]:
    """Whether an attempt costs more than it may."""
    if policy.max_cost_increase is None or comparison.cost is None:
        return []
    base, new = comparison.cost
    if new <= base * (1 + policy.max_cost_increase) + 1e-12:
        return []
    rise = f"{new / base - 1:.0%}" if base else "from nothing"
    return [
        f"the cost per attempt rose by {rise}, allowed are {policy.max_cost_increase:.0%}: ${base:.4f} to ${new:.4f}"
    ]
