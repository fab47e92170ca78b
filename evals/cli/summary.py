"""Show a job's success rates by category, difficulty, tag, task or agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.scorecard import By, Ci
from harness.job.summary import MIN_COVERAGE

if TYPE_CHECKING:
    from rich.table import Table

    from evals.scorecard import Row, Scorecard


def summary(
    job: Annotated[Path, typer.Argument(help="A job's folder, ours or Harbor's.")],
    by: Annotated[By, typer.Option("--by", help="What attempts are grouped by.")] = By.CATEGORY,
    ci: Annotated[Ci, typer.Option("--ci", help="Exact is for one attempt per task, and needs scipy.")] = Ci.WILSON,
    categories: Annotated[Path | None, typer.Option("--categories", help="A TOML file of further categories.")] = None,
    min_coverage: Annotated[
        float, typer.Option("--min-coverage", min=0, max=1, help="Below this share of attempts there is no rate.")
    ] = MIN_COVERAGE,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> int:
    """Show a job's success rates with their intervals, n, and what missing attempts could make of them."""
    from rich.console import Console

    from evals.categories import load_categories
    from evals.scorecard import document, scorecard
    from harness.job.progress import load_summary
    from harness.store.index.folders import require_job

    known = load_categories(categories)
    numbers, findings = load_summary(require_job(job))
    card = scorecard(numbers, by, known, ci=ci, min_coverage=min_coverage)
    if as_json:
        typer.echo(json.dumps(document(card, str(job), findings), allow_nan=False))
        return 0
    console = Console(highlight=False, emoji=False)
    console.print(_table(card))
    for line in _lines(card, findings):
        console.print(line, markup=False, soft_wrap=True)
    return 0


def _table(card: Scorecard) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(show_edge=False, pad_edge=False, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(card.by.value, overflow="fold")
    for name in ("tasks", "passed", "rate", "95% interval", "missing: bounds", "reward"):
        table.add_column(name, justify="right")
    for row in card.rows:
        _add(table, row, last=row is card.rows[-1])
    _add(table, card.all)
    return table


def _add(table: Table, row: Row, *, last: bool = False) -> None:
    from rich.markup import escape

    from harness.cli.text import percent, plain

    missing = row.total - row.n
    reward = "n/a" if row.reward is None else f"{row.reward:.3f}"
    if row.reward_interval:
        reward += f" ({row.reward_interval[0]:.3f} - {row.reward_interval[1]:.3f})"
    table.add_row(
        escape(plain(row.label)) + (" *" if row.few else ""),
        str(row.tasks),
        f"{row.successes}/{row.n}",
        "incomplete" if row.incomplete else percent(row.rate),
        _range(row.interval) if row.interval else "n/a",
        f"{missing}: {_range((row.worst, row.best))}" if missing else "0",
        reward,
        end_section=last,
    )


def _range(bounds: tuple[float | None, float | None]) -> str:
    from harness.cli.text import percent

    return " - ".join(percent(bound).removesuffix("%") for bound in bounds) + "%"


def _lines(card: Scorecard, findings: list[str]) -> list[str]:
    from evals.stats.passk import OverTasks
    from harness.cli.text import duration, percent, plain

    def over(name: str, k: int, value: OverTasks) -> str:
        rest = "" if value.n_defined == value.n_tasks else f" (over {value.n_defined} of {value.n_tasks} tasks)"
        return f"{name}{k} {percent(value.value)}{rest}"

    counts = ", ".join(f"{count} {name}" for name, count in card.counts.items() if count)
    number = sum(card.counts.values())
    lines = [
        f"{number} attempt{'' if number == 1 else 's'}: {counts}"
        + (f"; {card.retries} repeated" if card.retries else "")
    ]
    lines += [", ".join(over("pass@", k, value) for k, value in card.pass_at.items())] if card.pass_at else []
    lines += [", ".join(over("pass^", k, value) for k, value in card.pass_hat.items())] if card.pass_hat else []
    if card.fixed_error is not None and not card.all.incomplete:
        error = f"{100 * card.fixed_error:.1f}pp"
        lines.append(f"intervals are for tasks like these; on exactly these, the rate's standard error is {error}")
    if card.flaky:
        shown = ", ".join(map(plain, card.flaky[:8])) + (" ..." if len(card.flaky) > 8 else "")
        lines.append(f"{len(card.flaky)} tasks pass some attempts and fail others: {shown}")
    spent = [f"${card.cost:.4f}"] if card.cost is not None else []
    spent += [f"{duration(card.seconds)} of trials"] if card.seconds is not None else []
    lines += ["; ".join(spent)] if spent else []
    if any(row.few for row in card.rows):
        lines.append("* too few tasks to say much")
    pending = card.counts.get("pending", 0)
    if card.decided:
        lines.append(f"ended by its stop rule: {card.decided}; what is pending was not needed")
    elif pending:
        lines.append(f"{pending} pending: missing from all, and from no group, since nothing of them is recorded yet")
    if card.all.incomplete or any(row.incomplete for row in card.rows):
        lines.append("incomplete: too few attempts say anything of the agent")
    return lines + [f"note: {plain(finding)}" for finding in findings]
