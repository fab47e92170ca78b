"""`harness store`: is what jobs left on disk sound, and how much of it can go or shrink."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.store.layout import JobPaths
    from harness.store.prune import Superseded

app = typer.Typer(help="Verify, prune and compact what jobs left on disk.", no_args_is_help=True, add_completion=False)

Folders = Annotated[list[Path], typer.Argument(metavar="JOBS...", help="Jobs, or folders that hold jobs.")]
_FAILED = 1


@app.command("verify")
def verify(folders: Folders) -> int:
    """Read every file of every trial, and hold it against the others; exit code 1 where something is damaged.

    Strict JSON, valid ATIF, rollouts whose checksums hold, and the same counts in record, trajectory and rollout.
    """
    from harness.cli.text import plain
    from harness.store.damage import damage_of_job, damage_of_trial
    from harness.store.layout import TrialPaths

    jobs, trials, damaged = 0, 0, 0
    for job in _jobs(folders):
        jobs += 1
        found = list(damage_of_job(job))
        for folder in job.trial_folders():
            trials += 1
            found += damage_of_trial(TrialPaths(folder))
        for each in found:
            typer.echo(f"{plain(str(each.path))}: {plain(each.problem)}")
        damaged += len(found)
    typer.echo(f"{trials:,} trials in {jobs:,} jobs: " + (f"{damaged:,} damages" if damaged else "all sound"))
    return _FAILED if damaged else 0


@app.command("prune")
def prune(
    folders: Folders,
    older_than: Annotated[
        float | None, typer.Option(min=0, metavar="DAYS", help="Only what ended longer ago than so many days.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go; never ask.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
) -> int:
    """Remove executions that a later one of the same attempt replaced; an attempt's last execution always stays.

    Shows what would go, and asks in a terminal; elsewhere nothing goes without --yes. A job that runs is left out.
    """
    from harness.cli.text import plain
    from harness.store.held import JobBusy, held
    from harness.store.prune import remove, superseded, sweep

    before = None if older_than is None else datetime.now(UTC) - timedelta(days=older_than)
    jobs = _jobs(folders)
    for job in () if dry_run else jobs:
        sweep(job)
    found = [(job, each) for job in jobs for each in superseded(job, older_than=before)]
    for _, each in found:
        typer.echo(f"{plain(str(each.folder))}  {_size(each.size)}  ended {each.ended:%Y-%m-%d}, replaced by {each.by}")
    total = _total([each for _, each in found])
    if not found:
        typer.echo("nothing to prune: no execution was replaced by a later one" + (" that long ago" if before else ""))
        return 0
    if dry_run or not (yes or sys.stdin.isatty()):
        typer.echo(f"{total} would go; to remove them: --yes")
        return 0
    if not yes:
        typer.confirm(f"Remove {total}?", abort=True)
    removed = []
    for job, pairs in groupby(found, key=lambda pair: pair[0]):
        try:
            with held(job):
                for _, each in pairs:
                    remove(each)
                    removed.append(each)
        except JobBusy as error:
            typer.echo(f"note: {plain(str(error))}: left out", err=True)
    typer.echo(f"removed {_total(removed)}")
    return 0


@app.command("compact")
def compact(folders: Folders) -> int:
    """Compress the trajectories and logs of finished trials (zstd); every command here reads them as before.

    Programs of others, Harbor's too, then have to decompress them first. A job that runs is left out.
    """
    from harness.cli.text import plain
    from harness.store.compact import Compacted, compact_trial
    from harness.store.held import JobBusy, held
    from harness.store.layout import TrialPaths

    done = Compacted()
    for job in _jobs(folders):
        try:
            with held(job):
                for folder in job.trial_folders():
                    compact_trial(TrialPaths(folder), done)
        except JobBusy as error:
            typer.echo(f"note: {plain(str(error))}: left out", err=True)
    share = f" ({100 * done.after / done.before:.0f} %)" if done.before else ""
    typer.echo(f"{done.files:,} files compressed: {_size(done.before)} became {_size(done.after)}{share}")
    return 0


def _jobs(folders: list[Path]) -> list[JobPaths]:
    from harness.store.index.folders import jobs_in

    found = jobs_in(folders)
    if not found:
        raise UsageError(f"{folders[0]} holds no jobs")
    return found


def _total(executions: Sequence[Superseded]) -> str:
    return f"{len(executions):,} executions, {_size(sum(each.size for each in executions))}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"
