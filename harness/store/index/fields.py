"""The names that a filter may use, and what each is compared with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import get_type_hints

from harness.errors import UsageError
from harness.failures import FailureCategory, Layer, Outcome
from harness.records import Behaviour
from harness.store.index.rows import TrialRow


class Kind(StrEnum):
    """What a field's values are."""

    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    FLAG = "yes or no"


class Place(StrEnum):
    """Whose field it is."""

    TRIAL = "trials"
    BEHAVIOUR = "behaviour"
    LABEL = "labels"
    REWARD = "rewards"
    CALL = "calls"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Field:
    """One name of the filter language. `column` is its column, or a label's kind, or a reward's name."""

    name: str
    kind: Kind
    place: Place
    column: str
    choices: tuple[str, ...] = ()


class UnknownField(UsageError):
    """A filter names what no trial has."""


_CHOICES = {
    "outcome": tuple(each.value for each in Outcome),
    "failure_category": tuple(each.value for each in FailureCategory),
    "failure_layer": tuple(each.value for each in Layer),
}
_HIDDEN = {"root", "numbered", "categories", "tags"}
_ALIASES = {"failure": "failure_category", "since": "started_at", "until": "started_at", "group": "group_id"}
_PART = "reward."


def _trial_fields() -> Iterable[Field]:
    hints = get_type_hints(TrialRow)
    for each in fields(TrialRow):
        if each.name not in _HIDDEN:
            number = hints[each.name] in (int, float, int | None, float | None)
            kind = Kind.TIME if each.name.endswith("_at") else Kind.NUMBER if number else Kind.TEXT
            yield Field(each.name, kind, Place.TRIAL, each.name, _CHOICES.get(each.name, ()))


_OWN = {each.name: each for each in _trial_fields()}
FIELDS: dict[str, Field] = {
    **_OWN,
    **{alias: Field(alias, _OWN[name].kind, Place.TRIAL, name, _OWN[name].choices) for alias, name in _ALIASES.items()},
    "category": Field("category", Kind.TEXT, Place.LABEL, "category"),
    "tag": Field("tag", Kind.TEXT, Place.LABEL, "tag"),
    "superseded": Field("superseded", Kind.FLAG, Place.SUPERSEDED, ""),
    "tool": Field("tool", Kind.TEXT, Place.CALL, "tool"),
    "command": Field("command", Kind.TEXT, Place.CALL, "command"),
    "exit": Field("exit", Kind.NUMBER, Place.CALL, "exit_code"),
    "timed_out": Field("timed_out", Kind.FLAG, Place.CALL, "timed_out"),
    "subagent": Field("subagent", Kind.TEXT, Place.CALL, "subagent"),
    "step": Field("step", Kind.NUMBER, Place.CALL, "step"),
    **{name: Field(name, Kind.NUMBER, Place.BEHAVIOUR, name) for name in Behaviour.model_fields},
}
"""By name; besides, `reward.NAME` is a part of the reward."""

GROUPABLE = tuple(
    name
    for name, each in FIELDS.items()
    if each.kind is Kind.TEXT and each.place in (Place.TRIAL, Place.LABEL) and name not in ("failure", "group")
)
"""What `by:` takes."""


def field_of(name: str) -> Field:
    """The field of this name. Raises UnknownField, which names the nearest one."""
    if name in FIELDS:
        return FIELDS[name]
    if name.startswith(_PART) and len(name) > len(_PART):
        return Field(name, Kind.NUMBER, Place.REWARD, name.removeprefix(_PART))
    raise UnknownField(f"there is no column {name!r}{nearest(name, FIELDS)} (all: harness query --columns)")


def nearest(word: str, known: Iterable[str]) -> str:
    """ "; the nearest is ...", or nothing where none is near."""
    found = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.5)
    return f"; the nearest is {found[0]!r}" if found else ""
