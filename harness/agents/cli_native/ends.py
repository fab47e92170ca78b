"""How a program ended, by its own structured result: exit codes lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from harness import strict_json
from harness.agents.cli_native.config import End
from harness.failures import AgentStop

_MAX_DETAIL = 500
_ABSENT = object()


def read_end(ends: Sequence[End], text: str, exit_code: int | None) -> tuple[AgentStop, str | None] | None:
    """The end that a result tells of, and a line about it; None if it tells of none.

    Args:
        ends: of the documents in the text, the last one counts that any of these fits; one without conditions on a
            document fits also where there is none.
        text: one JSON document, or one a line among anything else. It may begin in the middle of a line.
        exit_code: None if the program was killed.
    """
    for document in [*reversed(documents(text)), {}]:
        for end in ends:
            if end.exit_code in (None, exit_code) and all(_fits(document, *each) for each in end.when.items()):
                return end.stop, _line(document, end.detail)
    return None


def documents(text: str) -> list[Mapping[str, Any]]:
    """The JSON objects in a text that is one, or has some among its lines; a list's are its items."""
    whole = _parsed(text)
    if whole:
        return whole
    return [document for line in text.splitlines() if line.lstrip()[:1] in ("{", "[") for document in _parsed(line)]


def _parsed(text: str) -> list[Mapping[str, Any]]:
    try:
        value = strict_json.loads(text)
    except ValueError:
        return []
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, Mapping)]


def _fits(document: Mapping[str, Any], key: str, wanted: Any) -> bool:
    found = _value(document, key)
    choices = wanted if isinstance(wanted, list) else [wanted]
    return any(
        fnmatchcase(found, each) if isinstance(found, str) and isinstance(each, str) else _same(found, each)
        for each in choices
    )


def _same(found: Any, wanted: Any) -> bool:
    """Equal and of one type: `false` is no 0."""
    return type(found) is type(wanted) and bool(found == wanted)


def _value(document: Any, key: str) -> Any:
    for part in key.split("."):
        if not isinstance(document, Mapping) or part not in document:
            return _ABSENT
        document = document[part]
    return document


def _line(document: Mapping[str, Any], key: str | None) -> str | None:
    value = _ABSENT if key is None else _value(document, key)
    if value is _ABSENT or value is None:
        return None
    text = value if isinstance(value, str) else strict_json.dumps(strict_json.clean(value)[0])
    return " ".join(text.split())[:_MAX_DETAIL] or None
