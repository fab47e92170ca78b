"""`harness langsmith`: push what a run did not send, and pull what its page selects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.tracing.exporter import Exporter

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Push jobs to LangSmith, and pull a selection.")

NOT_SENT = 3

_Jobs = Annotated[list[Path], typer.Argument(metavar="JOB", help="Folders of jobs.", show_default=False)]
_Project = Annotated[
    str | None, typer.Option("--project", help="The PROJECT of the run's --langsmith; experiments are PROJECT/job.")
]


@app.command()
def push(jobs: _Jobs, project: _Project = None) -> int:
    """Send the trials of jobs; those that are there already stay as they are.

    Exit codes: 0 all are there, 3 some could not be sent.
    """
    from harness.tracing.exporter import Exporter
    from harness.tracing.push import push as send
    from harness.tracing.sink import Target

    _require(project)
    code = 0
    for folder, names in [(folder, _finished(folder)) for folder in jobs]:
        exporter = Exporter(Target.LANGSMITH, folder, project)
        tally = send(exporter, names)
        typer.echo(_line(exporter))
        code = NOT_SENT if tally.unsent else code
    return code


@app.command()
def pull(
    jobs: _Jobs,
    chosen: Annotated[
        str,
        typer.Option(
            "--filter",
            metavar="EXPRESSION",
            help="In LangSmith's language, e.g. 'and(eq(feedback_key, \"reward\"), gte(feedback_score, 1))'.",
        ),
    ] = "",
    project: _Project = None,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="Seconds, for each job.")] = 60.0,
) -> int:
    """Print the folders of the trials that LangSmith selects, a line each."""
    _require(project)
    for folder in jobs:
        _finished(folder)
        for name in _selected(folder, chosen, project, timeout):
            if name in {"", ".", ".."} or "/" in name or not (folder / name / "result.json").is_file():
                typer.echo(f"note: {folder} has no trial {name!r}", err=True)
            else:
                typer.echo(folder / name)
    return 0


def _require(project: str | None) -> None:
    from harness.tracing.settings import LangSmithSettings
    from harness.tracing.sink import Target, require_extra

    require_extra(Target.LANGSMITH)
    LangSmithSettings.of(os.environ, project).require_key()


def _finished(folder: Path) -> list[str]:
    """The trials of a job that have a record. Raises UsageError where there is none."""
    from harness.store.layout import JobPaths
    from harness.tracing.job import read_job

    read_job(folder)
    names = [each.name for each in JobPaths(folder).trial_folders() if (each / "result.json").is_file()]
    if not names:
        raise UsageError(f"{folder} has no finished trial")
    return names


def _line(exporter: Exporter) -> str:
    from harness.cli.tracing import counts
    from harness.tracing.experiment import experiment_name
    from harness.tracing.job import read_job
    from harness.tracing.settings import LangSmithSettings

    name = experiment_name(read_job(exporter.folder), LangSmithSettings.of(os.environ, exporter.where).project)
    return f"{counts(exporter)}; experiment {name}"


def _selected(folder: Path, chosen: str, project: str | None, timeout: float) -> list[str]:
    """The names of trials; the SDK runs in a process of its own, so that it can be ended."""
    from harness.tracing.exporter import child_environment

    argv = [sys.executable, "-P", "-m", "harness.tracing.pull", str(folder), chosen, *([project] if project else [])]
    try:
        done = subprocess.run(  # noqa: S603 – this interpreter, this package
            argv, env=child_environment(os.environ), capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"LangSmith did not answer within {timeout:g} s: try again, or give more by --timeout"
        ) from None
    if done.returncode:
        raise UsageError((done.stderr.strip().splitlines() or ["LangSmith's SDK ended without a word"])[-1])
    return done.stdout.splitlines()
