"""Which commands exist, and where each lives. A command's module is imported only when that command runs.

Our own commands are rows of `BUILT_IN`. Others come from entry points of the group `harness.commands`: the entry
point's name is the command, the first line of its module's docstring is the help text, and the object is a typer app
or a function.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from itertools import zip_longest
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from harness.errors import UsageError

ENTRY_POINT_GROUP = "harness.commands"
OWN_DISTRIBUTION = "harness-rl"

EVALUATE = "Evaluate"
INSPECT = "Inspect"
JUDGE = "Judge"
TRAIN = "Train"
MORE = "More"


@dataclass(frozen=True, slots=True)
class CommandRow:
    """Where a command lives ("module:attribute"), its help text, and the panel of `harness --help` that shows it."""

    target: str
    help: str
    panel: str


BUILT_IN: dict[str, CommandRow] = {
    "run": CommandRow("harness.cli.run:run", "Run an agent on tasks and record every attempt.", EVALUATE),
    "resume": CommandRow("harness.cli.resume:resume", "Finish a job: run exactly what is still owed.", EVALUATE),
    "show": CommandRow("harness.cli.show:show", "Show a job's results, or one trial's trajectory.", INSPECT),
    "index": CommandRow("harness.cli.index:index", "Bring the index over folders of jobs up to date.", INSPECT),
    "query": CommandRow("harness.cli.query:query", "Find trials, and calls inside them, by a filter or SQL.", INSPECT),
    "store": CommandRow("harness.cli.store:app", "Verify, prune and compact what jobs left on disk.", INSPECT),
    "export": CommandRow("harness.cli.export:export", "Jobs as training data: RL rows, chats, ATIF.", INSPECT),
    "behaviour": CommandRow("harness.cli.behaviour:behaviour", "Show what a job's agents did, in numbers.", INSPECT),
    "langsmith": CommandRow("harness.cli.langsmith:app", "Push jobs to LangSmith, and pull a selection.", INSPECT),
    "proxy": CommandRow("harness.cli.proxy:proxy", "Serve a model to an agent of any dialect, and record it.", MORE),
    "tasks": CommandRow("harness.cli.tasks:app", "List, show and check tasks, and begin a new one.", INSPECT),
    "sandboxes": CommandRow("harness.cli.sandboxes:app", "List live sandboxes, and end those left behind.", INSPECT),
    "doctor": CommandRow("harness.cli.doctor:doctor", "Which sandboxes work here, and how to fix the others.", INSPECT),
}


def command_rows() -> dict[str, CommandRow]:
    """Every command by name, in the order of `--help`. A plug-in never replaces a command of ours."""
    plugins = {
        point.name: CommandRow(point.value, _summary(point.value.partition(":")[0]), _panel(point))
        for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
    }
    return {**BUILT_IN, **{name: row for name, row in plugins.items() if name not in BUILT_IN}}


def _panel(point: EntryPoint) -> str:
    if point.dist is None or point.dist.name != OWN_DISTRIBUTION:
        return MORE
    return TRAIN if point.value.startswith("trainer.") else JUDGE


def _summary(module: str) -> str:
    """The first line of a module's docstring, read from its source: importing it could cost seconds."""
    try:
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            return ""
        docstring = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
    except (ImportError, OSError, SyntaxError, ValueError):
        return ""
    return (docstring or "").partition("\n")[0]


def load(name: str, row: CommandRow) -> Any:
    """The command object of a row. Raises UsageError when it cannot be imported."""
    module, _, attribute = row.target.partition(":")
    try:
        found: Callable[..., Any] | typer.Typer = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"command {name!r} cannot be loaded from {row.target}: {error}") from error
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    app = typer.Typer(add_completion=False)
    app.command(name, cls=OptionalValues)(found)
    return typer.main.get_command(app)


class OptionalValues(TyperCommand):
    """A command in which an option may go without its value, if its metavar is in brackets; the value is empty then."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give a value to each such option that has none: at the end of the line, or before another option."""
        bare = {
            name
            for param in self.params
            if str(getattr(param, "metavar", None) or "").startswith("[")
            for name in param.opts
        }
        given: list[str] = []
        for arg, following in zip_longest(args, args[1:], fillvalue="-"):
            given.append(f"{arg}=" if arg in bare and following.startswith("-") else arg)
        return super().parse_args(ctx, given)


class CommandTable(TyperGroup):
    """The group behind `harness`: shows its table, and loads a command at the moment it is resolved."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.rows = command_rows()
        for name, row in self.rows.items():
            self.add_command(TyperCommand(name=name, help=row.help, rich_help_panel=row.panel))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that `args` name, loaded."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name, self.rows[name]) if name in self.rows else command, rest
