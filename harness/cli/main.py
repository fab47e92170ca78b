"""The console script `harness`: finds the command, and turns what goes wrong into one line and an exit code.

Exit codes: 0 done, 1 failed (a gate, or a bug), 2 the request cannot be, 3 infrastructure, 130 interrupted.
Set HARNESS_DEBUG=1 for tracebacks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from harness.cli.commands import CommandTable
from harness.errors import HarnessError, TaskError, UsageError

OK, FAILED, USAGE, INFRA, INTERRUPTED = 0, 1, 2, 3, 130

app = typer.Typer(cls=CommandTable, add_completion=False, invoke_without_command=True)


def _print_version(asked: bool) -> None:
    if asked:
        from harness import __version__

        typer.echo(f"harness {__version__}")
        raise typer.Exit


@app.callback()
def _harness(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run agents on tasks in sandboxes, and keep every attempt as one durable record."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name; None takes the process's own) and return its exit code."""
    try:
        result = typer.main.get_command(app).main(
            None if argv is None else list(argv), prog_name="harness", standalone_mode=False
        )
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the program's last boundary: one line, or the traceback if asked
        return _report(error)
    return result if isinstance(result, int) else OK


def _report(error: Exception) -> int:
    """Say what went wrong in one line on stderr."""
    if os.environ.get("HARNESS_DEBUG") == "1":
        raise error
    line, code = _explain(error)
    if line:
        typer.echo(f"error: {line}", err=True)
    return code


def _explain(error: Exception) -> tuple[str, int]:
    from backends.errors import SandboxError
    from backends.registry import MissingExtra, UnknownBackend

    if isinstance(error, UsageError | TaskError | UnknownBackend | MissingExtra):
        return _one_line(str(error)), USAGE
    if hasattr(error, "format_message"):  # the command line does not parse; typer has two class trees for that
        context = getattr(error, "ctx", None)
        hint = f" (see: {context.command_path} --help)" if context else ""
        message = _one_line(error.format_message()).rstrip(".")
        return message and message + hint, USAGE
    if isinstance(error, SandboxError):
        return _one_line(str(error)), INFRA
    kind = type(error).__name__
    advice = "" if isinstance(error, HarnessError) else " (run again with HARNESS_DEBUG=1 for the traceback)"
    return f"{kind}: {_one_line(str(error))}{advice}", FAILED


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main())
