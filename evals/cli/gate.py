"""Fail when a job is worse than its baseline, beyond chance."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from evals.gate.judge import GateResult

from evals.gate.policy import Metric, OnInconclusive, Policy

DEMANDS, VALIDITY, OUTPUT = "Demands", "What makes a comparison invalid", "Output"
DEFAULT = Policy()


class Format(StrEnum):
    """What is printed."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    GITHUB = "github"


def gate(
    job: Annotated[Path, typer.Argument(help="The job to judge: a folder, ours or Harbor's.")],
    baseline: Annotated[
        Path,
        typer.Option("--baseline", help="A job's folder, a file of harness baseline save, or git:REF:PATH of one."),
    ],
    metric: Annotated[
        Metric,
        typer.Option(help="What must not get worse: the success rate, or the mean reward.", rich_help_panel=DEMANDS),
    ] = Metric.SUCCESS,
    alpha: Annotated[float, typer.Option(help="How often an unchanged agent may fail.", rich_help_panel=DEMANDS)] = (
        DEFAULT.alpha
    ),
    min_effect: Annotated[
        str, typer.Option(help="A smaller drop never fails, however certain.", rich_help_panel=DEMANDS)
    ] = "2pp",
    margin: Annotated[str, typer.Option(help="A pass rules out a drop of this size.", rich_help_panel=DEMANDS)] = "5pp",
    pass_if_not_worse: Annotated[
        bool, typer.Option("--pass-if-not-worse", help="Also pass where nothing fell.", rich_help_panel=DEMANDS)
    ] = False,
    floor: Annotated[
        str | None, typer.Option(help="A success rate provably below this fails.", rich_help_panel=DEMANDS)
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(help="CATEGORY>=RATE or CATEGORY>=RATE:MIN_TASKS, a floor.", rich_help_panel=DEMANDS),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(help="A category whose own regression fails; all of them by Holm.", rich_help_panel=DEMANDS),
    ] = None,
    must_pass: Annotated[
        list[str] | None,
        typer.Option(
            help="Glob of tasks that fail the gate if all attempts passed before and none does now; tasks with the "
            "tag must-pass always do.",
            rich_help_panel=DEMANDS,
        ),
    ] = None,
    max_cost_increase: Annotated[
        float | None,
        typer.Option(min=0, help="Relative rise in cost per attempt; 0.2 is 20 %.", rich_help_panel=DEMANDS),
    ] = None,
    on_inconclusive: Annotated[
        OnInconclusive, typer.Option(help="Exit 0 with a warning, 0 without, or 4.", rich_help_panel=DEMANDS)
    ] = OnInconclusive.WARN,
    quarantine: Annotated[
        Path | None,
        typer.Option(help="TOML file of tasks that do not count, each until a day.", rich_help_panel=DEMANDS),
    ] = None,
    max_infra: Annotated[
        str, typer.Option(help="Share of attempts that may say nothing of the agent.", rich_help_panel=VALIDITY)
    ] = "5%",
    max_missing_tasks: Annotated[
        str, typer.Option(help="Share of tasks without any attempt that counts.", rich_help_panel=VALIDITY)
    ] = "2%",
    min_tasks: Annotated[
        int, typer.Option(min=1, help="Tasks below which nothing is judged.", rich_help_panel=VALIDITY)
    ] = DEFAULT.min_tasks,
    intersect: Annotated[
        bool, typer.Option("--intersect", help="Judge the tasks that both share.", rich_help_panel=VALIDITY)
    ] = False,
    any_attempts: Annotated[
        bool,
        typer.Option("--any-attempts", help="Allow different numbers of attempts per task.", rich_help_panel=VALIDITY),
    ] = False,
    categories: Annotated[
        Path | None, typer.Option(help="A TOML file of further categories.", rich_help_panel=OUTPUT)
    ] = None,
    format_: Annotated[
        Format,
        typer.Option(
            "--format", help="What is printed; github also writes the step's summary.", rich_help_panel=OUTPUT
        ),
    ] = Format.TEXT,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for gate.json, gate.md and gate.xml, whatever is printed.", rich_help_panel=OUTPUT),
    ] = None,
) -> int:
    """Exit 0 pass (or undecided), 1 worse than the baseline, 2 usage, 3 not comparable, 4 undecided where asked."""
    from datetime import UTC, datetime

    from evals.baseline import load_run
    from evals.categories import load_categories
    from evals.gate.judge import judge
    from evals.gate.policy import Floor, share
    from evals.gate.quarantine import read_quarantine

    policy = Policy(
        metric=metric,
        alpha=alpha,
        min_effect=share(min_effect, "--min-effect"),
        margin=share(margin, "--margin"),
        pass_if_not_worse=pass_if_not_worse,
        floor=None if floor is None else share(floor, "--floor"),
        floors=tuple(map(Floor.parse, require or ())),
        pinned=tuple(pin or ()),
        must_pass=tuple(must_pass or ()),
        max_infra=share(max_infra, "--max-infra"),
        max_missing_tasks=share(max_missing_tasks, "--max-missing-tasks"),
        min_tasks=min_tasks,
        max_cost_increase=max_cost_increase,
        on_inconclusive=on_inconclusive,
        intersect=intersect,
        any_attempts=any_attempts,
    )
    known = load_categories(categories)
    entries = read_quarantine(quarantine) if quarantine else []
    today = datetime.now(UTC).date()
    result = judge(load_run(baseline), load_run(job), policy, known, quarantine=entries, today=today)
    if out is not None:
        _write(result, out)
    _print(result, format_)
    return result.exit_code


def _print(result: GateResult, format_: Format) -> None:
    import os

    from evals.gate.output.document import to_json
    from evals.gate.output.github import to_annotations, write_step_files
    from evals.gate.output.junit import to_junit
    from evals.gate.output.markdown import to_markdown
    from evals.gate.output.text import to_text

    render = {
        Format.TEXT: to_text,
        Format.JSON: to_json,
        Format.MARKDOWN: to_markdown,
        Format.JUNIT: to_junit,
        Format.GITHUB: to_annotations,
    }[format_]
    typer.echo(render(result), nl=False)
    if format_ is Format.GITHUB:
        write_step_files(result, os.environ)


def _write(result: GateResult, folder: Path) -> None:
    from evals.gate.output.document import to_json
    from evals.gate.output.junit import to_junit
    from evals.gate.output.markdown import COMMENT, to_markdown
    from harness.errors import UsageError
    from harness.store.files import write_atomic

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (
            ("gate.json", to_json(result)),
            ("gate.md", to_markdown(result, COMMENT)),
            ("gate.xml", to_junit(result)),
        ):
            write_atomic(folder / name, text, durable=False)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
