"""`harness behaviour`: what the agents of a job did, in numbers."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from harness.behaviour.totals import Measure, Observed
    from harness.job.behaviour import ObservedTrial

FORMAT, VERSION = "harness-behaviour", 1
_ALL = "all"
_NAME_WIDTH, _CELL_WIDTH = 22, 15


class By(StrEnum):
    """What trials are grouped by."""

    CATEGORY = "category"
    TASK = "task"
    AGENT = "agent"


def behaviour(
    job: Annotated[Path, typer.Argument(help="A job's folder, ours or Harbor's.")],
    by: Annotated[By | None, typer.Option("--by", help="Also by category, task or agent.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> int:
    """Show how agents worked: parallel calls, failures, loops, time-outs, context and time, each with its n.

    n is how many a number is over. What a trajectory does not tell is left out, not taken for 0.
    """
    from harness.behaviour.totals import measures
    from harness.job.behaviour import observed_trials
    from harness.store.index.folders import require_job

    trials, findings = observed_trials(require_job(job))
    if not trials:
        raise UsageError(f"{job} holds no trials" + (f" that can be read ({findings[0]})" if findings else ""))
    groups = {name: measures(observed) for name, observed in _groups(trials, by).items()}
    silent = sum(trial.observed is None for trial in trials)
    if as_json:
        document = {"format": FORMAT, "version": VERSION, "job": str(job), "trials": len(trials)}
        values = {name: {each.key: _value(each) for each in found} for name, found in groups.items()}
        typer.echo(json.dumps({**document, "unknown": silent, "groups": values, "findings": findings}, allow_nan=False))
        return 0
    _print(job, groups, len(trials), silent, findings)
    return 0


def _groups(trials: Sequence[ObservedTrial], by: By | None) -> dict[str, list[Observed]]:
    """The trials that are known, all of them first; a trial of several categories is in each."""
    groups: dict[str, list[Observed]] = defaultdict(list)
    for trial in trials:
        names: tuple[str, ...] = ()
        if by is By.CATEGORY:
            names = trial.categories or ("uncategorised",)
        elif by is not None:
            names = (trial.task if by is By.TASK else trial.agent,)
        for name in names:
            if trial.observed is not None:
                groups[name].append(trial.observed)
    everything = [trial.observed for trial in trials if trial.observed is not None]
    return {_ALL: everything, **dict(sorted(groups.items()))}


def _value(each: Measure) -> dict[str, Any]:
    return {"value": each.value, "n": each.n, "of": each.of, "unit": each.unit.value}


def _print(job: Path, groups: Mapping[str, list[Measure]], total: int, silent: int, findings: Sequence[str]) -> None:
    from rich.console import Console

    from harness.cli.text import plain

    console = Console(highlight=False, emoji=False)
    words = f"{total - silent} of {total} trials of {plain(str(job))}" + ("; the others" if silent else "")
    console.print(words + (" left no trajectory" if silent else ""), markup=False, soft_wrap=True)
    everything = groups[_ALL]
    if total > silent:
        for table in (_one(everything), *_side_by_side(groups, console.width)):
            console.print()
            console.print(table)
        if all(each.n == 0 for each in everything if each.key == "error_rate"):
            console.print("no exit codes were recorded: loops are found by repeated results only")
    for finding in findings:
        console.print(f"note: {plain(finding)}", markup=False, soft_wrap=True)


def _one(found: Sequence[Measure]) -> Table:
    """A row for each measure."""
    table = _table("", "value", "n", "of")
    for each in found:
        table.add_row(each.label, _shown(each), str(each.n), each.of)
    return table


def _side_by_side(groups: Mapping[str, Sequence[Measure]], width: int) -> Iterator[Table]:
    """A row for each group, and as many measures in a table as fit; nothing where there are no groups."""
    from rich.markup import escape

    from harness.cli.text import plain

    fit = max(1, (width - _NAME_WIDTH) // _CELL_WIDTH)
    everything, others = groups[_ALL], [(name, found) for name, found in groups.items() if name != _ALL]
    for start in range(0, len(everything) if others else 0, fit):
        chosen = slice(start, start + fit)
        table = _table("", *(each.label for each in everything[chosen]))
        for column in table.columns[1:]:
            column.width = _CELL_WIDTH - 1
        for name, found in others:
            cells = (f"{_shown(each)} n={each.n}" for each in found[chosen])
            table.add_row(escape(plain(name)), *cells)
        yield table


def _table(first: str, *others: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(show_edge=False, pad_edge=False, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold", max_width=44)
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _shown(each: Measure) -> str:
    from harness.behaviour.totals import Unit
    from harness.cli.text import percent

    if each.value is None:
        return "n/a"
    if each.unit is Unit.SHARE:
        return percent(each.value)
    return f"{each.value:,.0f}" if each.value >= 100 or each.key == "longest_loop" else f"{each.value:,.2f}"
