"""Train a model on exported trajectories.

Several processes: `torchrun --nproc-per-node N -m harness.cli.main train ...`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from harness.errors import UsageError
from trainer.report.command import report

if TYPE_CHECKING:
    from trainer.loop import Outcome

_MISSING = (
    "{1} needs {0}: pip install 'harness-rl[{2}]' "
    "(without a GPU, first: pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu)"
)


def train(
    export: Annotated[Path, typer.Argument(metavar="DIR", help="An export made by harness export --to-rl.")],
    model: Annotated[
        str, typer.Option(help="A folder (or a name) that transformers loads, or tiny for a fresh small one.")
    ],
    algo: Annotated[str | None, typer.Option(help="The objective: cispo, grpo, dapo, gspo, sft, ...")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The run's folder. Default: trained/ and the export's name.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Settings as TOML.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="One setting: key=value, optimizer.lr=1e-5; repeat.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps. Default: one pass over the export.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the order of groups, and of fresh weights.")] = None,
    auto_remedy: Annotated[
        bool, typer.Option("--auto-remedy", help="Apply the mildest remedy of what the monitor diagnoses, and log it.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint.")] = False,
) -> int:
    """Train a model on exported trajectories."""
    asked = {name: value for name, value in (("algo", algo), ("steps", steps), ("seed", seed)) if value is not None}
    tables = tables_of(config, settings or [], asked)
    if auto_remedy:
        tables = {**tables, "monitor": {**tables.get("monitor", {}), "auto_remedy": True}}
    require_packages("training", "train", "torch", "transformers", "safetensors", "pyarrow")
    from trainer.config import parse_config
    from trainer.display import Display
    from trainer.distributed import is_first, process_group
    from trainer.loop import train as run

    request = parse_config(tables)
    target = out or Path("trained") / export.resolve().name
    with process_group():
        display = Display()
        outcome = run(export, model, target, request, resume=resume, on_step=display.step)
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
app.command(_TRAIN, epilog="harness train report DIR draws a run as a page.")(train)
app.command("report")(report)


def tables_of(config: Path | None, settings: list[str], asked: dict[str, Any]) -> dict[str, Any]:
    """Settings of a file, then of --set, then of their own options: later ones win. Raises UsageError."""
    tables: dict[str, Any] = {}
    if config is not None:
        try:
            tables = tomllib.loads(config.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"--config {config}: {error}") from error
    for each in settings:
        key, separator, text = each.partition("=")
        if not separator or not key:
            raise UsageError(f"--set {each}: write key=value, e.g. optimizer.lr=1e-5")
        _put(tables, key.split("."), _value(text), each)
    return {**tables, **asked}


def _put(tables: dict[str, Any], path: list[str], value: Any, said: str) -> None:
    for part in path[:-1]:
        tables = tables.setdefault(part, {})
        if not isinstance(tables, dict):
            raise UsageError(f"--set {said}: {part} is no table")
    tables[path[-1]] = value


def _value(text: str) -> Any:
    """As TOML reads it; anything else is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def require_packages(who: str, extras: str, *names: str) -> None:
    """Raise UsageError where what `who` needs is not installed."""
    from importlib.util import find_spec

    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise UsageError(_MISSING.format(", ".join(missing), who, extras))


def _report(outcome: Outcome, target: Path) -> int:
    if outcome.halted is not None:
        typer.echo(f"halted after {outcome.steps} steps: {outcome.halted}", err=True)
        return 1
    typer.echo(f"model:   {outcome.model}")
    typer.echo(f"metrics: {target / 'metrics.jsonl'}")
    return 0
