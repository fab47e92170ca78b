"""The counts of an export as tables."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from harness.cli.text import plain

if TYPE_CHECKING:
    from rich.console import Console

    from harness.export.stats import ExportStats

_SHOWN_FINDINGS = 5


def print_stats(console: Console, stats: ExportStats) -> None:
    """What was kept, masked and dropped, and why."""
    from rich.table import Table

    table = Table(show_edge=False, pad_edge=False)
    table.add_column("attempts")
    table.add_column("number", justify="right")
    table.add_column("why")
    table.add_row("kept", str(stats.kept), "")
    for name, reasons in (("masked", stats.masked), ("dropped", stats.dropped)):
        table.add_row(name, str(reasons.total()), _listed(reasons))
    table.add_section()
    table.add_row("all", str(stats.attempts), f"{stats.superseded} more were retried" if stats.superseded else "")
    console.print(table)
    for line in _lines(stats):
        console.print(line, markup=False, soft_wrap=True)
    for finding in stats.findings[:_SHOWN_FINDINGS]:
        console.print(f"note: {plain(finding)}", markup=False, soft_wrap=True)
    if stats.n_findings > _SHOWN_FINDINGS:
        console.print(f"note: and {stats.n_findings - _SHOWN_FINDINGS} more (export.json has them)", markup=False)


def _lines(stats: ExportStats) -> list[str]:
    groups, calls, tokens = stats.groups, stats.calls, stats.tokens
    n_groups = groups["complete"] + groups["incomplete"]
    lines = [
        f"groups: {n_groups}, {groups['incomplete']} of them incomplete, "
        f"{groups['without_signal']} with equal rewards, {groups['single']} of one attempt",
        f"rows:   {stats.rows}, {stats.trainable_rows} of them trainable",
        f"tokens: {tokens['sampled']} in the loss, {tokens.total() - tokens['sampled']} not"
        + _in_brackets(Counter({name: count for name, count in tokens.items() if name != "sampled"})),
        f"calls:  {calls['calls']}, of which {calls['extended']} extended, {calls['realigned']} realigned, "
        f"{calls['forked']} forked"
        + _in_brackets(Counter({name[5:]: count for name, count in calls.items() if name.startswith("fork:")})),
    ]
    if calls["realigned_tokens"]:
        lines.append(f"        {calls['realigned_tokens']} sampled tokens were given up by realigning")
    if stats.faults:
        lines.append(f"faulty calls, masked: {_listed(stats.faults)}")
    if stats.missing_turns:
        lines.append(f"missing calls, whose tokens no file holds: {stats.missing_turns}")
    if stats.not_plain:
        lines.append(f"note: {stats.not_plain} rows were sampled with top_p or top_k: ratios need the same filter")
    if stats.retokenised_rows:
        lines.append(f"note: {stats.retokenised_rows} rows are retokenised: no log-probability, not for ratio losses")
    return lines


def _listed(reasons: Counter[str]) -> str:
    return ", ".join(f"{count} {plain(name).replace('_', ' ')}" for name, count in reasons.most_common() if count)


def _in_brackets(reasons: Counter[str]) -> str:
    listed = _listed(reasons)
    return f" ({listed})" if listed else ""
