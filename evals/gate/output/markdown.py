"""The gate's result as Markdown: for a pull request's comment or a step summary, the verdict first."""

from __future__ import annotations

from evals.compare import Comparison
from evals.difference import points
from evals.escape import markdown as inert
from evals.gate.judge import GateResult
from evals.gate.output.words import headline, money, outlook_lines, rates, reward_lines
from evals.gate.rule import Verdict
from harness.cli.text import percent

MARKER = "<!-- harness-gate -->"
"""By this a bot finds its own comment again."""

COMMENT = 65_000
"""Bytes that fit into a pull request's comment, which GitHub bounds at 65,536 characters."""

_SIGNS = {Verdict.PASS: "✅", Verdict.FAIL: "❌", Verdict.INCONCLUSIVE: "⚠️", Verdict.INVALID: "🚫"}
_CUT = "\n\n_Cut here; the whole result is in gate.json._\n"


def to_markdown(result: GateResult, max_bytes: int = 1 << 20) -> str:
    """At most `max_bytes` of UTF-8, cut between lines: GitHub drops a step summary above 1 MiB as a whole."""
    comparison = result.comparison
    lines = [MARKER, f"## {_SIGNS[result.verdict]} {inert(headline(result))}", ""]
    lines += [f"- {inert(reason, 600)}" for reason in result.reasons]
    if comparison.overall:
        lines += ["", f"**Success** {inert(rates(comparison.overall))}"]
    lines += [f"\n{inert(line)}" for line in reward_lines(comparison) + outlook_lines(result)]
    lines += _categories(comparison) + _flips(comparison)
    facts = money(comparison) + [f"quarantined: {task}: {reason}" for task, reason in result.quarantined.items()]
    facts += [f"note: {note}" for note in result.notes]
    lines += ["", *(f"- {inert(fact, 600)}" for fact in facts)] if facts else []
    lines += ["", f"baseline: {inert(comparison.base.label)}; job: {inert(comparison.new.label)}", ""]
    return cut("\n".join(lines), max_bytes)


def cut(text: str, max_bytes: int) -> str:
    """The whole lines that fit, and a word where some do not."""
    raw = text.encode()
    if len(raw) <= max_bytes:
        return text
    kept = raw[: max(0, max_bytes - len(_CUT.encode()))]
    return kept[: max(0, kept.rfind(b"\n"))].decode("utf-8", "ignore") + _CUT


def _categories(comparison: Comparison) -> list[str]:
    if len(comparison.categories) < 2:
        return []
    lines = ["", "| category | base | new | difference [95%] | tasks | q |", "|--|--:|--:|--:|--:|--:|"]
    for each in comparison.categories:
        found = each.difference
        low, high = found.interval
        flag = " ⚠️" if each.q <= 0.05 else ""
        lines.append(
            f"| {inert(each.label)} | {percent(found.base)} | {percent(found.new)} | {points(found.value, sign=True)} "
            f"[{points(low, sign=True)}, {points(high, sign=True)}]{flag} "
            f"| {found.tasks}{' (few)' if each.few else ''} | {each.q:.2g} |"
        )
    return lines


def _flips(comparison: Comparison) -> list[str]:
    flips = comparison.flips
    if not flips:
        return []
    worse = sum(flip.value < 0 for flip in flips)
    lines = [
        "",
        f"<details><summary>{len(flips)} tasks changed: {worse} worse, {len(flips) - worse} better</summary>",
        "",
    ]
    lines += ["| task | base | new | failed trials |", "|--|--:|--:|--|"]
    lines += [
        f"| {inert(flip.new.name)} | {flip.base.passed}/{flip.base.counted} | {flip.new.passed}/{flip.new.counted} "
        f"| {inert(', '.join(flip.new.trials[:5]))} |"
        for flip in flips
    ]
    return [*lines, "", "</details>"]
