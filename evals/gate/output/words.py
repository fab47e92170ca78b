"""The sentences that several formats share. They hold text from outside and are not escaped."""

from __future__ import annotations

from evals.compare import Comparison
from evals.difference import Difference, points
from evals.gate.judge import GateResult
from evals.gate.outlook import attempts_if_nothing_varies
from evals.gate.rule import Verdict
from harness.cli.text import percent

HEADLINES = {
    Verdict.PASS: "PASS: no worse than the baseline",
    Verdict.FAIL: "FAIL: worse than the baseline",
    Verdict.INCONCLUSIVE: "INCONCLUSIVE: neither a regression nor its absence is shown",
    Verdict.INVALID: "INVALID: these runs cannot be compared",
}


def headline(result: GateResult) -> str:
    """The verdict in words."""
    if result.verdict is Verdict.FAIL and result.reading and result.reading.verdict is not Verdict.FAIL:
        return "FAIL: a demand of this gate is not met"
    return HEADLINES[result.verdict]


def rates(found: Difference) -> str:
    """Both rates and their difference."""
    low, high = found.interval
    return (
        f"{percent(found.base)} -> {percent(found.new)}, mean over {found.tasks} tasks: "
        f"{points(found.value, sign=True)} [{points(low, sign=True)}, {points(high, sign=True)}] (95%, {found.method})"
    )


def outlook_lines(result: GateResult) -> list[str]:
    """What this comparison can see, and what more attempts would buy."""
    seen, policy = result.outlook, result.policy
    if seen is None:
        if result.verdict is not Verdict.INCONCLUSIVE:
            return []
        tasks = len(result.comparison.pairing.graded)
        needed = attempts_if_nothing_varies(tasks, policy)
        return [
            f"no attempt varied: if that stays so, {needed} attempts per task on these {tasks} tasks make it a pass"
        ]
    lines = [
        f"this comparison finds a drop of {points(seen.mde)} or more (80% power, alpha = {policy.alpha:g} one-sided, "
        f"paired, {seen.tasks} tasks x {seen.attempts})"
    ]
    if result.verdict is Verdict.INCONCLUSIVE:
        lines.append(
            f"with {seen.attempts + 2} attempts per task an unchanged agent would pass {seen.chance_more:.0%} of the "
            f"time, with {seen.attempts} it is {seen.chance:.0%}"
            + (f"; {seen.needed} make it 80%" if seen.needed and seen.needed > seen.attempts else "")
        )
    return lines


def reward_lines(comparison: Comparison) -> list[str]:
    """The difference of mean rewards, where some are graded."""
    found, flips = comparison.reward, comparison.reward_flips
    if found is None or flips is None:
        return []
    low, high = found.interval or (None, None)
    bounds = f" [{low:+.3f}, {high:+.3f}] (95%, Student's t over tasks)" if low is not None else ""
    how = "exact" if flips.exact else "sampled"
    return [f"mean reward: {found.mean:+.3f}{bounds}, sign-flip p = {flips.two_sided:.2g} two-sided ({how})"]


def money(comparison: Comparison) -> list[str]:
    """Cost and time per attempt, where both runs tell."""
    lines = []
    if comparison.cost:
        lines.append(f"cost per attempt: ${comparison.cost[0]:.4f} -> ${comparison.cost[1]:.4f}")
    if comparison.seconds:
        lines.append(f"time per attempt: {comparison.seconds[0]:.1f}s -> {comparison.seconds[1]:.1f}s")
    return lines
