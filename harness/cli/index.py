"""`harness index`: brings the index over folders of jobs up to date."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from harness.store.index.refresh import Refreshed

DB_HELP = (
    "The index: a SQLite file, or a PostgreSQL database's URL (in the environment if it holds a password). "
    "By default each folder of jobs keeps its own, in .harness/index.sqlite."
)
Db = Annotated[str | None, typer.Option("--db", envvar="HARNESS_DB", show_envvar=True, help=DB_HELP)]


def index(
    jobs_dirs: Annotated[list[Path] | None, typer.Argument(help="Folders that hold jobs.", show_default="jobs")] = None,
    db: Db = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Throw the index away, and read everything.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> int:
    """Bring the index up to date: only trials that are new or changed are read.

    The files are the truth; the index may be deleted at any time. Interrupt it whenever you like: the next run goes on.
    """
    from rich.console import Console

    console = Console(highlight=False, emoji=False)
    folders = jobs_dirs or [Path("jobs")]
    require_folders_of_jobs(folders)
    if rebuild and db is not None:
        _empty(db)
    for folder in folders:
        name, done = _refresh(folder, db, rebuild and db is None, quiet=as_json)
        if as_json:
            typer.echo(json.dumps({"jobs_dir": str(folder), "index": name, **asdict(done)}))
        else:
            _tell(console, folder, name, done)
    return 0


def require_folders_of_jobs(folders: list[Path]) -> None:
    """Raises UsageError for what is none."""
    from harness.store.index.folders import is_job, is_trial

    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder; name the folder that holds jobs, e.g.: harness index jobs")
        if is_trial(folder) or is_job(folder):
            kind = "a trial" if is_trial(folder) else "a job"
            raise UsageError(f"{folder} is {kind}; name the folder that holds jobs, e.g. {folder.resolve().parent}")


def _empty(db: str) -> None:
    from harness.store.index.database import Database

    database = Database(db)
    database.prepare(anew=True)
    database.close()


def _refresh(folder: Path, db: str | None, rebuild: bool, *, quiet: bool) -> tuple[str, Refreshed]:
    from rich.console import Console
    from rich.status import Status

    from harness.store.trajectories import TrajectoryStore

    errors = Console(stderr=True, highlight=False, emoji=False)
    with TrajectoryStore(folder, db=db) as store:
        if quiet or not errors.is_terminal:
            return store.database.name, store.rebuild() if rebuild else store.refresh()
        with Status("looking at the folders", console=errors) as status:

            def show(done: Refreshed) -> None:
                status.update(f"{done.jobs} jobs; {done.added + done.changed} trials read")

            done = store.rebuild(on_progress=show) if rebuild else store.refresh(on_progress=show)
        return store.database.name, done


def _tell(console: Console, folder: Path, name: str, done: Refreshed) -> None:
    from harness.cli.text import plain

    if done.note:
        console.print(f"note: {done.note}", markup=False, soft_wrap=True)
    read = done.added + done.changed
    rate = f" ({read / done.seconds:,.0f} a second)" if read >= 1000 and done.seconds else ""
    console.print(
        f"{folder}: {done.trials:,} trials in {done.jobs:,} jobs; {done.added:,} new, {done.changed:,} changed, "
        f"{done.removed:,} gone, {done.unfinished:,} without a record; took {done.seconds:.1f}s{rate}",
        markup=False,
        soft_wrap=True,
    )
    for problem in done.problems:
        console.print(f"note: {plain(problem)}", markup=False, soft_wrap=True)
    if done.damaged > len(done.problems):
        console.print(f"note: and {done.damaged - len(done.problems):,} more that are damaged", markup=False)
    console.print(f"index: {name}", markup=False, soft_wrap=True)
