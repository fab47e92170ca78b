"""`harness doctor`: which sandboxes work on this machine, how well they isolate, and the exact fix for the others."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution
from typing import Annotated

import typer

from backends.protocol import Readiness
from backends.registry import backend_names, create_provider
from harness import __version__

DISTRIBUTION = "harness-rl"
_CHECK_TIMEOUT_SEC = 20.0
_NOT_OURS = {"all", "dev", "examples"}
"""Extras that no command and no backend needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What this machine offers.

    Attributes:
        backends: readiness by backend name.
        extras: for each extra of the distribution whether its packages are installed; None if we are not installed.
        api_keys: names of the environment variables that hold a key; never their values.
    """

    version: str
    python: str
    backends: dict[str, Readiness]
    extras: dict[str, bool] | None
    api_keys: list[str]

    @property
    def works(self) -> bool:
        """Whether at least one backend works."""
        return any(readiness.works for readiness in self.backends.values())


async def diagnose() -> Diagnosis:
    """Ask every backend, all at once; one that does not answer is reported and holds nobody up."""
    names = backend_names()
    readiness = await asyncio.gather(*(_readiness(name) for name in names))
    return Diagnosis(
        version=__version__,
        python=platform.python_version(),
        backends=dict(zip(names, readiness, strict=True)),
        extras=_extras(),
        api_keys=sorted(name for name, value in os.environ.items() if name.endswith("_API_KEY") and value),
    )


async def _readiness(name: str) -> Readiness:
    try:
        provider = create_provider(name)
    except ImportError as error:
        detail, _, fix = str(error).partition(": pip install ")
        return Readiness(
            works=False, isolation="none", detail=detail, fix=f"pip install {fix or repr(f'{DISTRIBUTION}[all]')}"
        )
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT_SEC):
            return await provider.check()
    except TimeoutError:
        return Readiness(works=False, isolation="none", detail=f"no answer within {_CHECK_TIMEOUT_SEC:g} s")
    finally:
        await provider.close()


def _extras() -> dict[str, bool] | None:
    try:
        ours = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None
    extras: dict[str, bool] = {}
    for requirement in ours.requires or []:
        match = re.match(r"([\w.-]+).*extra\s*==\s*['\"]([\w.-]+)['\"]", requirement)
        if match and match[1] != DISTRIBUTION and match[2] not in _NOT_OURS:
            extras[match[2]] = extras.get(match[2], True) and _installed(match[1])
    return extras


def _installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> int:
    """Which sandboxes work here, at what isolation, and the exact fix for those that do not.

    Exits with 0 if at least one backend works, else with 3.
    """
    diagnosis = asyncio.run(diagnose())
    if as_json:
        typer.echo(json.dumps({**asdict(diagnosis), "works": diagnosis.works}, indent=2, ensure_ascii=False))
    else:
        _print(diagnosis)
    return 0 if diagnosis.works else 3


def _print(diagnosis: Diagnosis) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("backend", "works", "isolation", "detail"):
        table.add_column(title, overflow="fold")
    for name, readiness in diagnosis.backends.items():
        works = "[green]yes[/]" if readiness.works else "[red]no[/]"
        isolation = readiness.isolation if readiness.works else "-"
        table.add_row(name, works, isolation, escape(readiness.detail))
    console = Console(highlight=False, emoji=False)
    console.print(f"harness {diagnosis.version}, Python {diagnosis.python}\n")
    console.print(table)
    for name, readiness in diagnosis.backends.items():
        if readiness.fix:
            console.print(f"\nfix {name}: {escape(readiness.fix)}", soft_wrap=True)
    console.print(f"\nextras: {_listed(diagnosis.extras)}", markup=False)
    console.print(f"keys in the environment: {', '.join(diagnosis.api_keys) or 'none'}", markup=False)


def _listed(extras: dict[str, bool] | None) -> str:
    if extras is None:
        return f"unknown ({DISTRIBUTION} is not installed here)"
    return ", ".join(f"{name} ({'installed' if there else 'missing'})" for name, there in extras.items()) or "none"
