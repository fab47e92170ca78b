"""Options whose value may be left out, and exports of chosen trials."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer
from traced_jobs import traced_job

from harness.cli.commands import OptionalValues
from harness.export.attempts import find_attempts, open_jobs

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


def test_folders_of_trials_choose_them_and_the_others_are_not_missing(tmp_path: Path) -> None:
    job = traced_job(tmp_path)
    attempts = find_attempts(open_jobs([job / "a__1", job / "b__2"]))
    assert sorted(ref.folder for ref in attempts.refs) == ["a__1", "b__2"]
    assert not attempts.unreadable.total()
    assert sorted(map(attempts.group_missing, {ref.group_id for ref in attempts.refs})) == [0, 0]
    assert len(find_attempts(open_jobs([job / "a__1", job])).refs) == 4
