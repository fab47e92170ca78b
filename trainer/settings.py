"""Settings as they are given on the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from harness.errors import UsageError

SET_HELP = "One setting: key=value, optimizer.lr=1e-5; repeat."


def tables_in(file: Path) -> dict[str, Any]:
    """The settings of a TOML file. Raises UsageError."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--config {file}: {error}") from error


def tables_of(tables: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """The tables with each `key=value` put in; later ones win. Raises UsageError."""
    found = deepcopy(tables)
    for each in settings:
        key, separator, text = each.partition("=")
        if not separator or not key:
            raise UsageError(f"--set {each}: write key=value, e.g. optimizer.lr=1e-5")
        _put(found, key.split("."), _value(text), each)
    return found


def _put(tables: dict[str, Any], path: list[str], value: Any, said: str) -> None:
    for part in path[:-1]:
        inner = tables.get(part)
        if inner is None:
            inner = tables[part] = {}
        if not isinstance(inner, dict):
            raise UsageError(f"--set {said}: {part} is no table")
        tables = inner
    tables[path[-1]] = value


def _value(text: str) -> Any:
    """As TOML reads it; anything else is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
