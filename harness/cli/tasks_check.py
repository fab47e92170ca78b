"""`harness tasks check`: whether tasks measure what they should."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from harness.job.check import TaskCheck

OK, FOUND, INFRA = 0, 1, 3


def check(
    dataset: Annotated[str, typer.Argument(help="A bundled suite, a folder, or git+URL@revision#path.")],
    *,
    repeat: Annotated[
        int, typer.Option("--repeat", min=1, help="Attempts with the solution, and with doing nothing.")
    ] = 3,
    include: Annotated[list[str] | None, typer.Option(help="Only tasks whose name fits this glob.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="No task whose name fits this glob.")] = None,
    backend: Annotated[str, typer.Option("--backend", "-b", help="Where sandboxes run.")] = "local",
    concurrent: Annotated[int, typer.Option("--n-concurrent", "-n", min=1, help="Trials at a time.")] = 4,
    allow_unsafe: Annotated[
        bool, typer.Option("--allow-unsafe-local", help="Run locally even where nothing isolates.")
    ] = False,
    jobs_dir: Annotated[Path, typer.Option("--jobs-dir", help="Where the attempts are kept.")] = Path("jobs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> int:
    """Check the tasks of DATASET: the solution must earn 1, doing nothing 0, each time, and git must not tell.

    Exit codes: 0 nothing was found, 1 something was, 2 the request cannot be, 3 infrastructure failed an attempt.
    """
    from harness.job.check import check_tasks

    folder = jobs_dir / datetime.now().strftime("check-%Y-%m-%d__%H-%M-%S")
    checks = asyncio.run(
        check_tasks(
            folder,
            repeat=repeat,
            progress=lambda line: typer.echo(line, err=True),
            dataset=dataset,
            include=tuple(include or ()),
            exclude=tuple(exclude or ()),
            backend=backend,
            n_concurrent=concurrent,
            allow_unsafe_local=allow_unsafe,
        )
    )
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in checks], indent=2, ensure_ascii=False))
    else:
        _print(checks, folder)
    if any(each.findings for each in checks):
        return FOUND
    return INFRA if any(each.unjudged for each in checks) else OK


def _print(checks: Sequence[TaskCheck], folder: Path) -> None:
    from harness.cli.text import plain

    for each in checks:
        word = "found" if each.findings else "unjudged" if each.unjudged else "ok"
        typer.echo(f"{word:9}{plain(each.name)}")
        for finding in each.findings:
            typer.echo(f"         {plain(finding)}")
        if each.unjudged:
            typer.echo(f"         {each.unjudged} attempts were failed by infrastructure")
    found = sum(bool(each.findings) for each in checks)
    flaky = sum(each.flaky for each in checks)
    typer.echo(f"\n{len(checks)} tasks, {found} with findings, {flaky} of them flaky; attempts: {plain(str(folder))}")
