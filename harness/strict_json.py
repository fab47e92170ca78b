"""Strict JSON: no NaN, no infinities, no lone surrogates, nothing that only Python's parser would take back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

Notes = list[str]


def loads(text: str | bytes) -> Any:
    """Parse strict JSON; lone surrogates, which escapes can still smuggle in, become U+FFFD.

    Raises ValueError, also for constants that JSON lacks and for nesting too deep to read.
    """
    try:
        return clean(json.loads(text, parse_constant=_no_constant))[0]
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def dumps(value: Any) -> str:
    """Strict JSON on one line. `value` must be clean."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def clean(value: Any, text: Callable[[str], str] | None = None) -> tuple[Any, Notes]:
    """`value` as strict JSON values, and the paths of the numbers that had to become null.

    `text` is applied to every string, keys included. A list of plain numbers with one that is not finite becomes null
    as a whole: its elements only mean something together. Whatever JSON does not know becomes its `str`.
    """
    notes: Notes = []
    return _clean(value, "", text, notes), notes


def whole(value: str) -> str:
    """`value` with every pair of surrogates joined, and every lone one replaced by U+FFFD."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def _clean(value: Any, path: str, text: Callable[[str], str] | None, notes: Notes) -> Any:
    match value:
        case None | bool() | int():
            return value
        case str():
            return _string(value, text)
        case float():
            if math.isfinite(value):
                return value
            notes.append(path)
            return None
        case dict():
            return {
                (name := _string(str(key), text)): _clean(item, f"{path}.{name}" if path else name, text, notes)
                for key, item in value.items()
            }
        case list() | tuple():
            if all(type(item) is int for item in value):
                return list(value)
            if all(type(item) in (int, float) for item in value):
                if all(map(math.isfinite, value)):
                    return list(value)
                notes.append(path)
                return None
            return [_clean(item, f"{path}[{index}]", text, notes) for index, item in enumerate(value)]
        case _:
            return _string(str(value), text)


def _string(value: str, text: Callable[[str], str] | None) -> str:
    return text(whole(value)) if text else whole(value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
