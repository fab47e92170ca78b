"""Compare two jobs on the tasks that both have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from evals.compare import Comparison


def compare(
    base: Annotated[Path, typer.Argument(help="The job to compare with, or a baseline: a file, or git:REF:PATH.")],
    new: Annotated[Path, typer.Argument(help="The job that is compared.")],
    intersect: Annotated[
        bool, typer.Option("--intersect", help="Compare the tasks that both share, and say what was left out.")
    ] = False,
    categories: Annotated[Path | None, typer.Option(help="A TOML file of further categories.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> int:
    """Show the difference between two jobs with its interval, by category and by task, and what each cost."""
    import json

    from evals.baseline import load_run
    from evals.categories import load_categories
    from evals.compare import compare as compare_runs
    from evals.pairing import pair
    from harness.errors import UsageError

    known = load_categories(categories)
    first, second = load_run(base), load_run(new)
    pairing = pair(first, second)
    if not pairing.complete and not intersect:
        raise UsageError(
            f"the jobs are not of the same tasks ({pairing.left_out}); --intersect compares the shared ones"
        )
    if first.pass_mark != second.pass_mark:
        raise UsageError(f"the jobs have different pass marks: {first.pass_mark:g} and {second.pass_mark:g}")
    if not pairing.graded:
        raise UsageError("no task has attempts that say something of the agent in both jobs")
    found = compare_runs(first, second, pairing, known)
    if as_json:
        typer.echo(json.dumps(_document(found), allow_nan=False))
    else:
        typer.echo(_text(found), nl=False)
    return 0


def _document(found: Comparison) -> dict[str, Any]:
    from evals.gate.output.document import comparison_document

    return {"format": "harness-compare", "version": 1, **comparison_document(found)}


def _text(found: Comparison) -> str:
    from evals.gate.output.text import category_lines, flip_lines
    from evals.gate.output.words import money, rates, reward_lines
    from harness.cli.text import plain

    overall = found.overall
    lines = [f"base: {found.base.label}", f"new:  {found.new.label}"]
    if overall:
        lines += [f"success: {rates(overall)}", f"p = {overall.p:.2g} two-sided, {overall.changed} tasks changed"]
    lines += reward_lines(found) + money(found) + category_lines(found) + flip_lines(found)
    for name, run in (("base", found.base), ("new", found.new)):
        if run.missing:
            lines.append(f"{run.missing} of {run.total} attempts of {name} say nothing of the agent and are left out")
    if not found.pairing.complete:
        lines.append(f"left out: {found.pairing.left_out}")
    if found.pairing.ungraded:
        lines.append(f"left out for want of attempts that count: {found.pairing.without_verdict}")
    return "\n".join(map(plain, lines)) + "\n"
