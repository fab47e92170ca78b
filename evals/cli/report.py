"""Write a job, or two next to each other, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evals.categories import Category
    from evals.compare import Comparison
    from evals.report.attempts import Job


def report(
    job: Annotated[Path, typer.Argument(help="A job's folder, ours or Harbor's, finished or not.")],
    other: Annotated[Path | None, typer.Argument(metavar="[JOB2]", help="A job to compare with it.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page. Default: report.html in the (last) job's folder.")
    ] = None,
    figures: Annotated[Path | None, typer.Option("--figures", help="A folder for the figures as PNG, too.")] = None,
    categories: Annotated[Path | None, typer.Option("--categories", help="A TOML file of further categories.")] = None,
) -> int:
    """Write one self-contained page: verdict, intervals, failures, cost, and every trial step by step."""
    from evals.report.extra import require_extra

    require_extra()
    from evals.categories import load_categories
    from evals.report.attempts import load
    from evals.report.bounds import Bounds
    from evals.report.drawings import figures as draw
    from evals.report.drawings import save
    from evals.report.page import write
    from evals.report.words import comparison, verdict
    from harness.cli.text import plain

    known = load_categories(categories)
    jobs = [load(folder, known) for folder in (job, other) if folder is not None]
    found = _compared(jobs, known)
    drawn = draw(jobs, found, known)
    file = output or jobs[-1].folder / "report.html"
    write(file, jobs, found, drawn, known, Bounds())
    for line in [comparison(found).line] if found else [verdict(each).line for each in jobs]:
        typer.echo(plain(line))
    typer.echo(f"report: {file} ({file.stat().st_size / 1e6:.1f} MB)")
    if figures is not None:
        typer.echo(f"figures: {', '.join(map(str, save(drawn, figures)))}")
    return 0


def _compared(jobs: Sequence[Job], categories: Mapping[str, Category]) -> Comparison | None:
    from evals.compare import compare
    from evals.pairing import pair

    if len(jobs) < 2:
        return None
    base, new = (each.run for each in jobs)
    return compare(base, new, pair(base, new), categories)
