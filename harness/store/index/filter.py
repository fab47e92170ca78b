"""The filter language: what a person types, as terms that were checked.

    outcome=scored reward>=0.5 category=memory,recovery agent!=nop since=7d by:task
    tool=bash command~"rm -rf" exit!=0

Terms are joined by "and"; commas separate alternatives. `=` and `!=` compare whole values, `~` and `!~` look for a text
within, `<`, `<=`, `>`, `>=` compare numbers and times. `none` is what is unknown; `!=` holds for the unknown, too.
Terms about calls (tool, command, exit, timed_out, subagent, step) are about one and the same call. `by:NAME` counts.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from harness.errors import UsageError
from harness.store.index.fields import GROUPABLE, Field, Kind, field_of, nearest
from harness.store.index.rows import stored_text, timestamp

Value = str | float | bool | None
"""None is the unknown."""

_TERM = re.compile(r"""\s*([A-Za-z_][\w.\-]*)\s*(>=|<=|!=|!~|=|>|<|~|:)\s*""")
_VALUE = re.compile(r'"((?:[^"\\]|\\.)*)"|([^\s,"]+)')
_AGO = re.compile(r"(\d+(?:\.\d+)?)(m|h|d|w)")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_ORDER = ("<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: `field op value`, for any of the values (for all of them where it is negated)."""

    field: Field
    op: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """All conditions, and what to count by."""

    terms: tuple[Term, ...] = ()
    by: str | None = None


def parse_filter(text: str, *, now: datetime | None = None) -> Filter:
    """Read a filter; an empty one is all trials. Raises UsageError with a line that names what is wrong.

    `now` is what "7d" is counted back from.
    """
    moment = now or datetime.now(UTC)
    terms: list[Term] = []
    by: str | None = None
    position = 0
    while text[position:].strip():
        head = _TERM.match(text, position)
        if head is None:
            raise _unreadable(text, position)
        name, op = head[1], head[2]
        words, position = _values(text, head.end())
        if op == ":":
            by = _group(name, words, by)
        else:
            terms.append(_term(name, op, words, moment))
    return Filter(tuple(terms), by)


def _unreadable(text: str, position: int) -> UsageError:
    rest = text[position:].strip()
    return UsageError(
        f"cannot read {rest[:40]!r} in the filter; a term is NAME=VALUE, as in: outcome=scored reward>=0.5 "
        'command~"rm -rf" (quote a value with spaces, and the whole filter for the shell)'
    )


def _values(text: str, position: int) -> tuple[list[str], int]:
    words: list[str] = []
    while True:
        found = _VALUE.match(text, position)
        if found is None:
            raise _unreadable(text, max(0, text.rfind(" ", 0, position)))
        words.append(re.sub(r"\\(.)", r"\1", found[1]) if found[1] is not None else found[2])
        position = found.end()
        if text[position : position + 1] != ",":
            return words, position
        position += 1


def _group(name: str, words: list[str], before: str | None) -> str:
    if name != "by":
        raise UsageError(f"{name}: is not understood; count by a column with by:NAME")
    if before is not None or len(words) != 1:
        raise UsageError("a filter counts by one column, e.g. by:task")
    if words[0] not in GROUPABLE:
        raise UsageError(f"by:{words[0]} is not possible{nearest(words[0], GROUPABLE)} (any of {', '.join(GROUPABLE)})")
    return words[0]


def _term(name: str, op: str, words: list[str], now: datetime) -> Term:
    field = field_of(name)
    if name in ("since", "until"):
        if op != "=":
            raise UsageError(f"write {name}=TIME, or compare started_at")
        op = ">=" if name == "since" else "<"
    if op in _ORDER and (field.kind not in (Kind.NUMBER, Kind.TIME) or len(words) > 1):
        raise UsageError(f"{name}{op}{','.join(words)}: {op} compares one number or time, and {name} is {field.kind}")
    if op in ("~", "!~") and field.kind is not Kind.TEXT:
        raise UsageError(f"{name}{op}{','.join(words)}: {op} looks into text, and {name} is a {field.kind}")
    values = tuple(_value(field, op, word, now) for word in words)
    if op in _ORDER and None in values:
        raise UsageError(f"{name}{op}none: the unknown is neither less nor more; write {name}=none")
    return Term(field, op, values)


def _value(field: Field, op: str, word: str, now: datetime) -> Value:
    if word == "none" and op not in ("~", "!~"):
        return None
    match field.kind:
        case Kind.NUMBER:
            return _number(field, word)
        case Kind.TIME:
            return _time(field, word, now)
        case Kind.FLAG:
            if word.lower() not in _YES:
                raise UsageError(f"{field.name}={word}: {field.name} is yes or no")
            return _YES[word.lower()]
        case Kind.TEXT:
            if field.choices and op in ("=", "!=") and word not in field.choices:
                known = ", ".join(field.choices)
                raise UsageError(f"{field.name} is never {word!r}{nearest(word, field.choices)} (any of {known})")
            return stored_text(word)


def _number(field: Field, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{field.name}: {word!r} is not a number")
    return value


def _time(field: Field, word: str, now: datetime) -> str:
    ago = _AGO.fullmatch(word)
    try:
        if ago is not None:
            return timestamp(now - timedelta(**{_UNITS[ago[2]]: float(ago[1])}))
        return timestamp(datetime.fromisoformat(word))
    except (ValueError, OverflowError):
        raise UsageError(
            f"{field.name}: {word!r} is not a time; write 2026-11-01, 2026-11-01T13:30 (UTC), or 7d for seven days ago"
        ) from None
