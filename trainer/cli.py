"""Train a model on exported trajectories.

Several processes: `torchrun --nproc-per-node N -m harness.cli.main train ...`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from trainer.monitor.command import diagnose
from trainer.packages import require_packages
from trainer.report.command import report
from trainer.settings import SET_HELP, tables_in, tables_of

if TYPE_CHECKING:
    from trainer.loop import Outcome
    from trainer.measure import Metrics
    from trainer.monitor.monitor import Observation


def train(
    export: Annotated[Path, typer.Argument(metavar="DIR", help="An export made by harness export --to-rl.")],
    model: Annotated[
        str, typer.Option(help="A folder (or a name) that transformers loads, or tiny for a fresh small one.")
    ],
    algo: Annotated[str | None, typer.Option(help="The objective: cispo (default), grpo, dapo, gspo, sft, ...")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The run's folder. Default: trained/ and the export's name.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Settings as TOML.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help=SET_HELP)] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps. Default: one pass over the export.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the order of groups, and of fresh weights.")] = None,
    auto_remedy: Annotated[
        bool, typer.Option("--auto-remedy", help="Apply the mildest remedy of what the monitor diagnoses, and log it.")
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Curves for TensorBoard as well, in the run's folder.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint.")] = False,
) -> int:
    """Train a model on exported trajectories.

    Exit codes: 0 all steps done, 1 halted by the monitor or a breaker, 2 the request cannot be.
    """
    asked = {name: value for name, value in (("algo", algo), ("steps", steps), ("seed", seed)) if value is not None}
    tables = {**tables_of({} if config is None else tables_in(config), settings or []), **asked}
    if auto_remedy:
        tables = {**tables, "monitor": {**tables.get("monitor", {}), "auto_remedy": True}}
    require_packages("training", "train", "torch", "transformers", "safetensors", "pyarrow")
    from trainer.board import Board
    from trainer.config import parse_config
    from trainer.display import Display
    from trainer.distributed import is_first, process_group
    from trainer.loop import train as run

    request = parse_config(tables)
    target = out or Path("trained") / export.resolve().name
    display, board = Display(), Board(target / "tensorboard") if tensorboard else None

    def on_step(metrics: Metrics, seen: Observation) -> None:
        display.step(metrics, seen)
        if board is not None:
            board.step(metrics, seen)

    with process_group():
        try:
            outcome = run(export, model, target, request, resume=resume, on_step=on_step)
        finally:
            if board is not None:
                board.close()
        if is_first():
            return _report(outcome, target)
    return 0 if outcome.halted is None else 1


class _Training(TyperGroup):
    """`harness train DIR` trains; what is named by its first word is another command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = args and args[0] in self.commands
        return super().parse_args(ctx, args if own else [_TRAIN, *args])

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        # Without a name of its own it is called what the group is called.
        return (None if name == _TRAIN else name), command, rest


_TRAIN = "run"
app = typer.Typer(cls=_Training, add_completion=False)
app.command(
    _TRAIN, epilog="harness train report DIR draws a run as a page; harness train diagnose DIR tells what is wrong."
)(train)
app.command("report")(report)
app.command("diagnose")(diagnose)


def _report(outcome: Outcome, target: Path) -> int:
    if outcome.halted is not None:
        typer.echo(f"halted after {outcome.steps} steps: {outcome.halted}", err=True)
        return 1
    typer.echo(f"model:   {outcome.model}")
    typer.echo(f"metrics: {target / 'metrics.jsonl'}")
    return 0
