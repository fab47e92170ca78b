"""What `harness query` prints for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.store.trajectories import StoredTrial

_ANY_WIDTH = 10_000
_SECONDS = len("2026-11-01T13:30:00")


def print_trials(records: Sequence[StoredTrial]) -> None:
    """A row for each trial."""
    rows = [
        (
            str(record.folder),
            record.row.task,
            record.row.agent,
            record.row.outcome,
            _number(record.row.reward),
            record.row.failure_tag or "",
            (record.row.started_at or "")[:_SECONDS].replace("T", " "),
        )
        for record in records
    ]
    if rows:
        print_rows(("trial", "task", "agent", "outcome", "reward", "failure", "started (UTC)"), rows)


def print_counts(by: str, counted: Sequence[Mapping[str, Any]]) -> None:
    """A row for each value of a column; outcomes that nothing had are left out."""
    from harness.failures import Outcome

    outcomes = [each.value for each in Outcome if any(row[each.value] for row in counted)]
    rows = [
        (
            "none" if row[by] is None else str(row[by]),
            str(row["trials"]),
            _number(row["mean_reward"], 3),
            *(str(row[name]) for name in outcomes),
        )
        for row in counted
    ]
    print_rows((by, "trials", "mean reward", *outcomes), rows, right=1)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, right: int | None = None) -> None:
    """A plain table; the columns from `right` on are aligned to the right."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from harness.cli.text import plain

    console = Console(highlight=False, emoji=False)
    table = Table(show_edge=False, pad_edge=False, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, name in enumerate(columns):
        table.add_column(escape(plain(name)), overflow="fold")
        if right is not None and number >= right:
            table.columns[-1].justify = "right"
    for row in rows:
        table.add_row(*(escape(plain(_cell(value))) for value in row))
    if not console.is_terminal:  # a file or a pipe has no width to keep to
        wide = table.__rich_measure__(console, console.options.update(max_width=_ANY_WIDTH)).maximum
        console = Console(highlight=False, emoji=False, width=max(80, wide))
    console.print(table)


def show_columns() -> None:
    """Every name that a filter knows."""
    from harness.store.index.fields import FIELDS

    rows = [(name, each.kind.value, ", ".join(each.choices) or _ABOUT.get(name, "")) for name, each in FIELDS.items()]
    print_rows(("name", "is", ""), [*rows, ("reward.NAME", "number", "a part of the reward")])


_ABOUT = {
    "reward": "0 to 1, of scored trials",
    "trial": "its folder's name",
    "digest": "of the task's content",
    "exception": "the type of what ended the trial early",
    "attempt": "from 1",
    "retry": "0 is the first execution of the attempt",
    "superseded": "a later execution of the same attempt is there",
    "since": "started at that time or later: 2026-11-01, or 7d ago",
    "until": "started before that time",
    "failure": "failure_category",
    "group": "group_id",
    "tag": "of the task",
    "category": "of the task",
    "tool": "of a call: its tool",
    "command": "of a call: its shell command",
    "exit": "of a call: its exit code",
    "timed_out": "of a call: its time ran out",
    "subagent": "of a call: whose it is; none is the agent itself",
    "step": "of a call: in which step of the trajectory",
}


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


def _number(value: float | None, digits: int = 4) -> str:
    return "" if value is None else f"{value:.{digits}g}"
