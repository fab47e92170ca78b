"""Tasks that are known to be unreliable and do not count, each for a reason and until a day.

[[quarantine]]
task = "acme/flaky-*"
reason = "the mirror is down, see issue 12"
until = 2026-12-31
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness.errors import UsageError


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: a glob on task names, why, and the last day it holds."""

    task: str
    reason: str
    until: date


@dataclass(frozen=True, slots=True)
class Quarantined:
    """What a quarantine takes out today: the reason by task, and notes about entries that do nothing."""

    reasons: dict[str, str]
    notes: tuple[str, ...] = ()


def read_quarantine(file: Path) -> list[Entry]:
    """Raises UsageError with one line for a file that is missing or malformed."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file} is not TOML: {error}") from error
    tables = document.get("quarantine", [])
    if not isinstance(tables, list) or set(document) - {"quarantine"}:
        raise UsageError(f"{file}: entries are written as [[quarantine]]")
    return [_entry(file, number, table) for number, table in enumerate(tables, 1)]


def _entry(file: Path, number: int, table: Any) -> Entry:
    where = f"{file}: quarantine {number}"
    if not isinstance(table, dict) or set(table) != {"task", "reason", "until"}:
        raise UsageError(f"{where}: needs task, reason and until, and nothing else")
    task, reason, until = table["task"], table["reason"], table["until"]
    if not (isinstance(task, str) and task and isinstance(reason, str) and reason):
        raise UsageError(f"{where}: task and reason are texts")
    if not isinstance(until, date) or isinstance(until, datetime):
        raise UsageError(f"{where}: until is a day such as 2026-12-31, without quotes")
    return Entry(task, reason, until)


def apply(entries: Sequence[Entry], names: Iterable[str], today: date) -> Quarantined:
    """The tasks that entries take out `today`. An expired entry takes out nothing, and is told."""
    names = list(names)
    reasons: dict[str, str] = {}
    notes = []
    for entry in entries:
        matched = [name for name in names if fnmatchcase(name, entry.task)]
        if not matched:
            notes.append(f"quarantine of {entry.task} matches no task")
        elif today > entry.until:
            notes.append(f"quarantine of {entry.task} expired on {entry.until}; it counts again")
        else:
            reasons.update(dict.fromkeys(matched, f"{entry.reason} (until {entry.until})"))
    return Quarantined(reasons, tuple(notes))
