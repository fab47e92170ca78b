"""Backends by name. A backend's module, and so its SDK, is imported only when it is asked for."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, cast

from backends.protocol import SandboxProvider

ENTRY_POINT_GROUP = "harness.backends"


@dataclass(frozen=True, slots=True)
class BackendRow:
    """Where a backend lives, the extra that brings its SDK, and whether its provider takes `max_sandboxes`."""

    module: str
    attribute: str
    extra: str | None = None
    bounded: bool = False


BUILT_IN: dict[str, BackendRow] = {
    "local": BackendRow("backends.local.provider", "LocalProvider"),
    "docker": BackendRow("backends.docker.provider", "DockerProvider", extra="docker"),
    "daytona": BackendRow("backends.daytona.provider", "DaytonaProvider", extra="daytona", bounded=True),
    "e2b": BackendRow("backends.e2b.provider", "E2BProvider", extra="e2b", bounded=True),
    "modal": BackendRow("backends.modal.provider", "ModalProvider", extra="modal", bounded=True),
}


class UnknownBackend(LookupError):
    """No backend has that name."""


class MissingExtra(ImportError):
    """The backend is known, but the package it needs is not installed."""


def backend_names() -> list[str]:
    """All known names, installed or not."""
    return sorted({*BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def create_provider(name: str, **options: Any) -> SandboxProvider:
    """The provider called `name`, made with its own options.

    Raises UnknownBackend (with the closest name) and MissingExtra (with the pip line that helps).
    """
    row = BUILT_IN.get(name)
    if row is None:
        for point in entry_points(group=ENTRY_POINT_GROUP):
            if point.name == name:
                return cast(SandboxProvider, point.load()(**options))
        known = backend_names()
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UnknownBackend(f"unknown backend {name!r}{hint} (known: {', '.join(known)})")
    try:
        factory = getattr(importlib.import_module(row.module), row.attribute)
    except ModuleNotFoundError as error:
        if row.extra is None:
            raise
        raise MissingExtra(
            f"backend {name!r} needs the package {error.name!r}: pip install 'harness-rl[{row.extra}]'"
        ) from error
    return cast(SandboxProvider, factory(**options))
