"""The tracing options of `harness run` and `harness resume`, and the lines that say what became of the traces."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from harness.tracing.exporter import Exporter

_PANEL = "Tracing"

ToLangSmith = Annotated[
    str | None,
    typer.Option(
        "--langsmith",
        metavar="[PROJECT]",
        help="Send every trial to LangSmith, as LANGSMITH_TRACING=true does; experiments are named PROJECT/job.",
        rich_help_panel=_PANEL,
    ),
]
ToOtel = Annotated[
    str | None,
    typer.Option(
        "--otel",
        metavar="[ENDPOINT]",
        help="Send every trial by OTLP over HTTP, by default to OTEL_EXPORTER_OTLP_ENDPOINT.",
        rich_help_panel=_PANEL,
    ),
]


def make_exporters(folder: Path, *, langsmith: str | None, otel: str | None) -> list[Exporter]:
    """The exporters of the job in `folder`, none of which has started; an option without a value is empty.

    Raises UsageError for what was asked for on the command line and cannot be. What only the environment asks for is
    left out instead, with a line: it may speak to another program.
    """
    if langsmith is None and otel is None and not _environment_asks():
        return []
    from harness.tracing.exporter import Exporter
    from harness.tracing.settings import LangSmithSettings, require_url
    from harness.tracing.sink import Target, require_extra

    exporters = []
    if langsmith is not None or _environment_asks():
        try:
            require_extra(Target.LANGSMITH)
            LangSmithSettings.of(os.environ, langsmith).require_key()
            exporters.append(Exporter(Target.LANGSMITH, folder, langsmith or None))
        except UsageError as error:
            if langsmith is not None:
                raise
            typer.echo(f"note: LANGSMITH_TRACING is set, but {error}; this job is not traced", err=True)
    if otel is not None:
        require_extra(Target.OTEL)
        exporters.append(Exporter(Target.OTEL, folder, require_url(otel) if otel else None))
    return exporters


def _environment_asks() -> bool:
    from harness.tracing.settings import asked_by_environment

    return asked_by_environment(os.environ)


def end_exporters(exporters: Sequence[Exporter], console: Console) -> None:
    """Wait for the exporters as long as they may take, and say what they did."""
    if not exporters:
        return
    from harness.tracing.exporter import end_all

    end_all(exporters)
    for exporter in exporters:
        if line := account(exporter):
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def account(exporter: Exporter) -> str:
    """What became of a run's traces, in a line, and how to send the rest; empty where there were none."""
    from harness.cli.text import plain
    from harness.tracing.sink import Target

    if not exporter.tally.offered:
        return ""
    line = counts(exporter)
    if exporter.tally.unsent and exporter.target is Target.LANGSMITH:
        project = f" --project {shlex.quote(exporter.where)}" if exporter.where else ""
        line += f"; send them: harness langsmith push {plain(shlex.quote(str(exporter.folder)))}{project}"
    return line


def counts(exporter: Exporter) -> str:
    """How many traces were sent, and why others were not."""
    from harness.cli.text import plain

    tally = exporter.tally
    parts = [f"{tally.sent} trace{'' if tally.sent == 1 else 's'} sent"]
    if tally.left_out:
        parts.append(f"{tally.left_out} left out by sampling")
    if tally.unsent:
        why = tally.unable or tally.why
        parts.append(f"{tally.unsent} not" + (f" ({plain(why)})" if why else " (no answer in time)"))
    return f"{exporter.target.label}: {', '.join(parts)}"
