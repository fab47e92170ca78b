"""A log of training, gone through again: what the monitor tells of it, step by step, and where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.errors import UsageError
from trainer.packages import require_packages
from trainer.settings import SET_HELP, tables_of

if TYPE_CHECKING:
    from trainer.config import TrainConfig


def diagnose(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="A run's folder, or its metrics.jsonl alone.")],
    settings: Annotated[list[str] | None, typer.Option("--set", help=SET_HELP)] = None,
) -> int:
    """Read a run's log again, and tell how its invariants stand and what is wrong; exit 1 where something is."""
    require_packages("the diagnosis", "train", "torch")
    from rich.console import Console

    from trainer.monitor.invariants import Level
    from trainer.monitor.live import standing, told, worth_telling
    from trainer.monitor.monitor import Monitor
    from trainer.report.run import steps_of

    log = run / "metrics.jsonl" if run.is_dir() else run
    steps = steps_of(log)
    if not steps:
        raise UsageError(f"{log} has no step: name the folder that harness train wrote, or its metrics.jsonl")
    watch = Monitor(_request(log.parent / "run.json", settings or []))
    console = Console(highlight=False, emoji=False)
    for numbers in steps:
        seen = watch.observe(numbers)
        for event in filter(worth_telling, seen.events):
            console.print(f"step {event.step}: ", told(event), sep="", soft_wrap=True)
    console.print(f"after step {steps[-1]['step']}: ", standing(seen), sep="", soft_wrap=True)
    wrong = bool(seen.findings) or any(reading.level is Level.ALARM for reading in seen.readings.values())
    return 1 if wrong else 0


def _request(file: Path, settings: list[str]) -> TrainConfig:
    """What the run was asked for, where that is known, with other settings on top."""
    from harness.store.files import read_json
    from trainer.config import parse_config

    tables: dict[str, Any] = {}
    if file.exists():
        try:
            tables = dict(read_json(file)["config"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{file} is damaged: move it away to judge the log by the defaults") from error
    return parse_config(tables_of(tables, settings))
