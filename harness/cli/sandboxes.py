"""`harness sandboxes`: which of our sandboxes are alive, wherever they run, and an end to those left behind."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from backends.protocol import SandboxProvider
    from backends.spec import SandboxInfo

app = typer.Typer(help="List live sandboxes, and end those left behind.", no_args_is_help=True, add_completion=False)

_CHECK_SEC = 20.0
Backends = Annotated[
    list[str] | None, typer.Option("--backend", "-b", help="Only these (repeatable); by default all that work here.")
]
Job = Annotated[str | None, typer.Option("--job", help="Only this job's: its folder, or its id.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines instead of a table.")]


@app.command("list")
def list_sandboxes(backend: Backends = None, job: Job = None, as_json: AsJson = False) -> None:
    """List the live sandboxes that harness processes started, on any machine."""
    found = asyncio.run(_find(backend, _labels(job)))
    _show(found, as_json=as_json, empty="no sandboxes")


@app.command("reap")
def reap_sandboxes(
    backend: Backends = None,
    job: Job = None,
    min_age: Annotated[
        float, typer.Option("--min-age", min=0, help="Seconds; younger ones are left to their time to live.")
    ] = 3600.0,
    as_json: AsJson = False,
) -> None:
    """End the sandboxes whose harness process is provably dead, and no others.

    A process of another machine cannot be proven dead: its sandboxes end by themselves, when their time to live is up.
    """
    found = asyncio.run(_reap(backend, _labels(job), min_age))
    _show(found, as_json=as_json, empty="nothing to reap")


def _labels(job: str | None) -> dict[str, str]:
    from backends.lifecycle import JOB
    from harness.job.config import load_job
    from harness.store.layout import JobPaths

    if job is None:
        return {}
    return {JOB: load_job(JobPaths(Path(job)))[1].job_id if Path(job).is_dir() else job}


async def _find(names: Sequence[str] | None, labels: Mapping[str, str]) -> list[SandboxInfo]:
    async with _providers(names) as providers:
        return [info for provider in providers for info in await provider.list(labels)]


async def _reap(names: Sequence[str] | None, labels: Mapping[str, str], min_age: float) -> list[SandboxInfo]:
    from backends.lifecycle import reap

    async with _providers(names) as providers:
        return [info for provider in providers for info in await reap(provider, labels, min_age_sec=min_age)]


@asynccontextmanager
async def _providers(names: Sequence[str] | None) -> AsyncIterator[list[SandboxProvider]]:
    """Those that were named, which must work; or all that do."""
    from backends.registry import MissingExtra, backend_names, create_provider
    from harness.errors import UsageError

    made: list[SandboxProvider] = []
    working: list[SandboxProvider] = []
    try:
        for name in names or backend_names():
            try:
                provider = create_provider(name)
            except MissingExtra:
                if names:
                    raise
                continue
            made.append(provider)
            async with asyncio.timeout(_CHECK_SEC):
                readiness = await provider.check()
            # Sandboxes can be listed where none could be started: a local one that isolates nothing, say.
            if readiness.works or name == "local":
                working.append(provider)
            elif names:
                fix = f": {readiness.fix}" if readiness.fix else ""
                raise UsageError(f"the {name} backend does not work here ({readiness.detail}){fix}")
        yield working
    finally:
        for provider in made:
            await provider.close()


def _show(found: Sequence[SandboxInfo], *, as_json: bool, empty: str) -> None:
    from backends.lifecycle import JOB, OWNER, TRIAL, owner_is_dead

    rows = [
        {
            "backend": info.backend,
            "id": info.id,
            "job": info.labels.get(JOB),
            "trial": info.labels.get(TRIAL),
            "age_sec": round(time.time() - info.created_at, 1),
            "owner_is_dead": owner_is_dead(info.labels.get(OWNER, "")),
        }
        for info in sorted(found, key=lambda info: info.created_at)
    ]
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row, ensure_ascii=False))
    elif not rows:
        typer.echo(empty)
    else:
        _print_table(rows)


def _print_table(rows: Sequence[Mapping[str, object]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("backend", "id", "job", "trial", "age", "owner"):
        table.add_column(title, overflow="fold")
    for row in rows:
        cells = [escape(str(row[name] or "-")) for name in ("backend", "id", "job", "trial")]
        table.add_row(*cells, f"{row['age_sec']:.0f} s", "dead" if row["owner_is_dead"] else "alive or elsewhere")
    Console(highlight=False, emoji=False).print(table)
