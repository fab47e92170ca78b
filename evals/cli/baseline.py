"""Keep what of a job the gate needs in a small file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def _baseline() -> None:
    """Keep what of a job the gate needs in a small file."""


@app.command()
def save(
    job: Annotated[Path, typer.Argument(help="The job's folder.")],
    file: Annotated[Path, typer.Argument(help="The file to write; an older one is replaced.")],
) -> int:
    """Save a job as a baseline."""
    from evals.baseline import load_run, save_baseline
    from harness.cli.text import percent, plain

    run = load_run(job)
    save_baseline(run, file)
    counted = sum(task.counted for task in run.tasks.values())
    passed = sum(task.passed for task in run.tasks.values())
    rate = percent(passed / counted if counted else None)
    typer.echo(plain(f"{file}: {len(run.tasks)} tasks x {run.attempts}, {passed} of {counted} passed ({rate})"))
    if run.missing:
        typer.echo(f"note: {run.missing} of {run.total} attempts say nothing of the agent")
    return 0
