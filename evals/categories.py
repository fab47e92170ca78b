"""Categories as data: what a task asks of an agent. Twelve are built in; a TOML file adds to them or replaces them.

A task names its own categories in its metadata. A dataset that knows none of ours is grouped by its own categories,
and one without any by its tags.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from harness.errors import UsageError

UNCATEGORISED = "uncategorised"
"""The group of tasks that name neither a category nor a tag."""

MIN_N = 5
"""Tasks below which a group's rate says too little, where its category does not say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """One category.

    Attributes:
        key: as tasks write it.
        label: as tables and axes show it.
        radar: whether it is an axis of the radar.
        min_n: tasks below which its rate says too little to be an axis, and is marked in tables.
    """

    key: str
    label: str
    description: str = ""
    radar: bool = True
    min_n: int = MIN_N


def load_categories(extra: Path | None = None) -> dict[str, Category]:
    """The built-in categories by key, in order, then those of `extra`. Raises UsageError with one line."""
    built_in = _read(Path(__file__).with_suffix(".toml"))
    return built_in if extra is None else {**built_in, **_read(extra)}


def _read(file: Path) -> dict[str, Category]:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file} is not TOML: {error}") from error
    return {key: _category(file, key, table) for key, table in document.items()}


_TYPES = {"label": str, "description": str, "radar": bool, "min_n": int}


def _category(file: Path, key: str, table: Any) -> Category:
    where = f"{file}: [{key}]"
    if not isinstance(table, dict):
        raise UsageError(f"{where}: a category is a table with a label")
    known = [field.name for field in fields(Category) if field.name != "key"]
    for name, value in table.items():
        if name not in known:
            raise UsageError(f"{where}: unknown field {name!r} (known: {', '.join(known)})")
        if type(value) is not _TYPES[name] or (isinstance(value, int) and name == "min_n" and value < 1):
            raise UsageError(f"{where}: {name} cannot be {value!r}")
    return Category(key=key, **{"label": key.replace("_", " ").capitalize(), **table})


def groups_of(categories: Sequence[str], tags: Sequence[str]) -> tuple[str, ...]:
    """The groups that a task belongs to: its categories, else its tags, else one for all that have neither."""
    return tuple(dict.fromkeys(categories)) or tuple(dict.fromkeys(tags)) or (UNCATEGORISED,)


def in_order(keys: Iterable[str], known: Mapping[str, Category]) -> list[str]:
    """Known categories in their order, then others by name, and what has none at the end."""
    order = {key: place for place, key in enumerate(known)}
    return sorted(set(keys), key=lambda key: (key == UNCATEGORISED, order.get(key, len(order)), key))
