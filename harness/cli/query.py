"""`harness query`: trials by a filter, or rows by SQL."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.index import Db, require_folders_of_jobs
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.store.index.refresh import Refreshed
    from harness.store.trajectories import StoredTrial, TrajectoryStore

_OUT = "Output"
_SQL = "For --sql"
_TABLE_ROWS = 50


def query(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILTER]",
            help="E.g. 'outcome=scored reward>=0.5 category=memory tool=bash exit!=0 since=7d by:task'; "
            "without one, all trials.",
        ),
    ] = None,
    jobs_dir: Annotated[Path | None, typer.Option(help="The folder that holds the jobs.", show_default="jobs")] = None,
    db: Db = None,
    sql: Annotated[
        str | None,
        typer.Option(
            help="Instead of a filter: one query on the tables trials, calls, labels, rewards, behaviour, files.",
            rich_help_panel=_SQL,
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds.", rich_help_panel=_SQL)] = 30.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a line, for each trial.", rich_help_panel=_OUT)
    ] = False,
    paths: Annotated[
        bool, typer.Option("--paths", help="Only the trials' folders, a line each.", rich_help_panel=_OUT)
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="At most so many, the latest; 0 is all. [default: 50 in a table, 1000 with --sql]",
            rich_help_panel=_OUT,
        ),
    ] = None,
    columns: Annotated[
        bool, typer.Option("--columns", help="What a filter can name, and nothing else.", rich_help_panel=_OUT)
    ] = False,
    refresh: Annotated[
        bool, typer.Option("--refresh/--no-refresh", help="First read what is new in the folders, for some seconds.")
    ] = True,
) -> int:
    """Find trials, and calls inside of them.

    Terms are joined by "and". = and != compare, ~ and !~ look for a text within, <, <=, > and >= compare numbers and
    times; commas separate alternatives; none is what is unknown. Terms about calls (tool, command, exit, ...) are
    about one and the same call. by:NAME counts.
    """
    from harness.cli.query_table import show_columns

    if columns:
        show_columns()
        return 0
    if sql is not None and (words or paths):
        raise UsageError("--sql stands alone: put the conditions into the query, and leave out the filter and --paths")
    if as_json and paths:
        raise UsageError("choose one of --json and --paths")
    with _open(jobs_dir, db) as store:
        if refresh:
            _refresh(store)
        if sql is not None:
            _show_sql(store, sql, limit, timeout, as_json)
        else:
            _show_trials(store, " ".join(words or ()), limit, as_json=as_json, paths=paths)
    return 0


def _open(jobs_dir: Path | None, db: str | None) -> TrajectoryStore:
    from harness.store.trajectories import TrajectoryStore

    if jobs_dir is None and db is not None:
        return TrajectoryStore(db)
    folder = jobs_dir or Path("jobs")
    require_folders_of_jobs([folder])
    return TrajectoryStore(folder, db=db)


def _refresh(store: TrajectoryStore) -> None:
    """Bring the index up to date if that is soon done, and say on stderr what the answer does not know."""
    from harness.cli.text import plain
    from harness.store.trajectories import REFRESH_SEC

    done = store.refresh(budget_sec=REFRESH_SEC)
    for line in _stale(done):
        typer.echo(f"note: {plain(line)}", err=True)


def _stale(done: Refreshed) -> list[str]:
    lines = [done.note] if done.note else []
    if not done.complete:
        jobs = f" and {done.behind_jobs:,} jobs not looked at" if done.behind_jobs else ""
        lines.append(
            f"the index is behind by {done.behind_trials:,} trials{jobs}: this answer leaves them out; "
            "to read them all: harness index"
        )
    if done.damaged:
        more = f" (and {done.damaged - 1:,} more)" if done.damaged > 1 else ""
        lines.append(f"{done.problems[0]}{more}")
    lines += [f"{folder} is not there: what the index knows of it may be gone" for folder in done.absent]
    return lines


def _show_sql(store: TrajectoryStore, sql: str, limit: int | None, timeout: float, as_json: bool) -> None:
    from harness.cli.query_table import print_rows

    most = 1000 if limit is None else limit or None
    answer = store.sql(sql, limit=most, timeout_sec=timeout)
    if as_json:
        for row in answer.rows:
            typer.echo(json.dumps(dict(zip(answer.columns, row, strict=True)), default=str))
    else:
        print_rows(answer.columns, answer.rows)
    if answer.cut:
        typer.echo(f"note: only the first {most:,} rows; --limit 0 shows all", err=True)


def _show_trials(store: TrajectoryStore, text: str, limit: int | None, *, as_json: bool, paths: bool) -> None:
    from harness.cli.query_table import print_counts, print_trials
    from harness.store.index.filter import parse_filter

    by = parse_filter(text).by
    if by is not None:
        if paths:
            raise UsageError(f"by:{by} counts trials, and --paths lists them: leave out one of the two")
        counted = store.counts(text)
        if as_json:
            for row in counted:
                typer.echo(json.dumps(row))
        else:
            print_counts(by, counted)
        return
    if as_json or paths:
        for record in store.query(text, limit=limit or None):
            typer.echo(str(record.folder) if paths else _document(record))
        return
    most = _TABLE_ROWS if limit is None else limit or None
    found = list(islice(store.query(text, limit=most), most))
    print_trials(found)
    total = store.count(text) if len(found) == most else len(found)
    if total > len(found):
        typer.echo(f"{total:,} trials, the latest {len(found):,} shown; --limit 0 shows all")
    else:
        typer.echo(f"{total:,} trials")


def _document(record: StoredTrial) -> str:
    row = {name: value for name, value in asdict(record.row).items() if name not in ("root", "numbered")}
    return json.dumps({"path": str(record.folder), **row})
