"""Options whose value may be left out."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer

from harness.cli.commands import OptionalValues

Given = tuple[str | None, str | None]


def parsed(argv: list[str]) -> Given:
    seen: list[Given] = []
    app = typer.Typer(add_completion=False)

    @app.command(cls=OptionalValues)
    def act(
        word: Annotated[str | None, typer.Argument()] = None,
        to: Annotated[str | None, typer.Option("--to", metavar="[NAME]")] = None,
        other: Annotated[str | None, typer.Option("--other")] = None,
    ) -> None:
        seen.append((word, to))

    typer.main.get_command(app).main(argv, prog_name="act", standalone_mode=False)
    return seen[0]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["w"], ("w", None)),
        (["w", "--to"], ("w", "")),
        (["w", "--to", "--other", "x"], ("w", "")),
        (["w", "--to", "x"], ("w", "x")),
        (["--to=x", "w"], ("w", "x")),
    ],
)
def test_an_option_in_brackets_may_go_without_its_value(argv: list[str], expected: Given) -> None:
    assert parsed(argv) == expected
