"""Keys of task.toml that nobody reads. A misspelt limit must not silently mean no limit at all."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from harness.task.config import TaskConfig
from harness.task.interaction_table import PLACE, HarnessTable
from harness.task.model import Finding

FILE = "task.toml"


def unknown_keys(tables: dict[str, Any], text: str) -> list[Finding]:
    """One finding for each key that is read by nothing, with the likely cure."""
    return [
        Finding(path=FILE, key=f"{table}.{key}" if table else key, message=_message(table, key, value, text))
        for table, key, value in (*_walk("", tables, TaskConfig), *_walk(PLACE, _ours(tables), HarnessTable))
    ]


def _ours(tables: dict[str, Any]) -> dict[str, Any]:
    """The one table below [metadata] that is not free."""
    harness = tables.get("metadata", {}).get("harness", {})
    return harness if isinstance(harness, dict) else {}


def _walk(path: str, table: dict[str, Any], model: type[BaseModel]) -> Iterator[tuple[str, str, object]]:
    known = _known(model)
    for key, value in table.items():
        inner = f"{path}.{key}" if path else key
        if key in known:
            nested = known[key]
            for item in value if isinstance(value, list) else [value]:
                if nested is not None and isinstance(item, dict):
                    yield from _walk(inner, item, nested)
        elif not path and isinstance(value, dict) and value:
            for name, item in value.items():
                yield inner, name, item
        else:
            yield path, key, value


@cache
def _known(model: type[BaseModel]) -> dict[str, type[BaseModel] | None]:
    return {name: _model_in(field.annotation) for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(argument) for argument in get_args(annotation))
    return next((model for model in found if model is not None), None)


def _model_at(table: str) -> type[BaseModel] | None:
    """What reads the table of that dotted name."""
    model: type[BaseModel] | None = TaskConfig
    if table == PLACE or table.startswith(f"{PLACE}."):
        model, table = HarnessTable, table.removeprefix(PLACE).removeprefix(".")
    for part in table.split(".") if table else ():
        model = _known(model).get(part) if model else None
    return model


@cache
def _homes() -> dict[str, list[str]]:
    """Each key of the main tables, and the tables that have it."""
    homes: dict[str, list[str]] = {}
    for table in ("agent", "verifier", "environment", "solution", "task"):
        nested = _known(TaskConfig)[table]
        for key in _known(nested) if nested else ():
            homes.setdefault(key, []).append(f"[{table}]")
    return homes


def _message(table: str, key: str, value: object, text: str) -> str:
    line = _line_of(table, key, text)
    place = f"[{table}]" if table else "the top level"
    where = f"line {line}: " if line else ""
    return f"{where}{key!r} in {place} is read by nothing{_hint(table, key, value)}"


def _hint(table: str, key: str, value: object) -> str:
    model = _model_at(table)
    siblings = list(_known(model)) if model else []
    close = difflib.get_close_matches(key, siblings, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    homes = _homes().get(key)
    if homes and not isinstance(value, dict):
        return f"; it belongs in {' or '.join(homes)}"
    if table and "." not in table and model is None:
        close = difflib.get_close_matches(table, _known(TaskConfig), n=1)
        return f"; did you mean the table [{close[0]}]?" if close else f"; there is no table [{table}]"
    return "; what is only for people goes in [metadata]"


def _line_of(table: str, key: str, text: str) -> int | None:
    """Where the key stands, found by eye rather than by grammar; None where it is written in an unusual way."""
    current = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[{1,2}\s*([^\]]+?)\s*\]{1,2}", line)
        if header:
            current = header[1]
            if current == (f"{table}.{key}" if table else key):
                return number
        elif current == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
            return number
    return None
