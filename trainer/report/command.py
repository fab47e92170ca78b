"""A run of training as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainer.packages import require_packages


def report(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="A run's folder, as harness train wrote it.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page. Default: report.html in the run's folder.")
    ] = None,
) -> None:
    """Draw a run as one HTML page: curves, invariants, what was found and done, filters, settings."""
    require_packages("the report", "report", "jinja2")
    from trainer.report.page import write_page
    from trainer.report.run import open_run

    found = open_run(run)
    target = out or run / "report.html"
    write_page(found, target)
    typer.echo(f"{target}: {len(found.steps):,} step{'' if len(found.steps) == 1 else 's'}")
