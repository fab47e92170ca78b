"""The gate's result for a terminal or a log: no markup, no colour, and every control character made visible."""

from __future__ import annotations

from evals.compare import Comparison
from evals.difference import points
from evals.gate.judge import GateResult
from evals.gate.output.words import headline, money, outlook_lines, rates, reward_lines
from harness.cli.text import percent, plain

_SHOWN = 15


def to_text(result: GateResult) -> str:
    """Lines, the verdict first."""
    comparison = result.comparison
    lines = [headline(result), *(f"  {reason}" for reason in result.reasons)]
    lines += [
        f"baseline: {comparison.base.label}",
        f"job:      {comparison.new.label}",
    ]
    if comparison.overall:
        lines.append(f"success:  {rates(comparison.overall)}")
    lines += reward_lines(comparison) + outlook_lines(result) + money(comparison)
    lines += category_lines(comparison) + flip_lines(comparison)
    lines += [f"quarantined: {task}: {reason}" for task, reason in result.quarantined.items()]
    lines += [f"note: {note}" for note in result.notes]
    return "\n".join(map(plain, lines)) + "\n"


def category_lines(comparison: Comparison) -> list[str]:
    """A line per category; none where there is only one."""
    if len(comparison.categories) < 2:
        return []
    width = max(len(each.label) for each in comparison.categories)
    lines = ["by category (q: Benjamini-Hochberg over all of them):"]
    for each in comparison.categories:
        found = each.difference
        low, high = found.interval
        lines.append(
            f"  {each.label:{width}}  {percent(found.base):>6} -> {percent(found.new):>6}  "
            f"{points(found.value, sign=True):>8} [{points(low, sign=True)}, {points(high, sign=True)}]  "
            f"n={found.tasks}  q={each.q:.2g}{'  few' if each.few else ''}"
        )
    return lines


def flip_lines(comparison: Comparison) -> list[str]:
    """The tasks that changed, the worst first."""
    flips = comparison.flips
    if not flips:
        return []
    worse = sum(flip.value < 0 for flip in flips)
    lines = [f"{len(flips)} tasks changed: {worse} worse, {len(flips) - worse} better"]
    shown = flips if len(flips) <= _SHOWN else (*flips[: _SHOWN - 3], *flips[-3:])
    for flip in shown:
        trials = f"  ({', '.join(flip.new.trials[:3])})" if flip.value < 0 and flip.new.trials else ""
        lines.append(
            f"  {flip.new.name}: {flip.base.passed}/{flip.base.counted} -> {flip.new.passed}/{flip.new.counted}{trials}"
        )
    if len(flips) > len(shown):
        lines.append(f"  and {len(flips) - len(shown)} more")
    return lines
