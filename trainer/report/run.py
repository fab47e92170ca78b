"""A run's folder, read for a report: what was asked, every step's numbers, and what the monitor told."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.store.files import read_json

Numbers = dict[str, float | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """See the module. `damaged` counts lines that could not be read; a run that is going on may have one."""

    name: str
    request: dict[str, Any]
    steps: list[Numbers]
    events: list[dict[str, Any]] = field(default_factory=list)
    damaged: int = 0

    @property
    def last(self) -> int:
        """The newest step."""
        return int(self.steps[-1]["step"] or 0)

    def curve(self, name: str) -> list[tuple[float, float]]:
        """The known values of one number, by step."""
        return [
            (float(each["step"] or 0), float(value))
            for each in self.steps
            if isinstance(value := each.get(name), int | float)
        ]

    def family(self, prefix: str) -> list[str]:
        """The names that begin so, in order of appearance."""
        return list(dict.fromkeys(name for each in self.steps for name in each if name.startswith(prefix)))


def open_run(folder: Path) -> Run:
    """Raises UsageError for what is no run's folder, or one without a step."""
    try:
        request = read_json(folder / "run.json")
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} is no run of training: name the folder that harness train wrote") from error
    steps, torn = _lines(folder / "metrics.jsonl", {"step"})
    told, also = _lines(folder / "events.jsonl", {"step", "kind", "name", "level"})
    events = [{"evidence": "", "change": None, "says": None, **event} for event in told]
    if not steps:
        raise UsageError(f"{folder} has no step yet; look again once one is in metrics.jsonl")
    if not isinstance(request, dict):
        raise UsageError(f"{folder / 'run.json'} is damaged")
    return Run(name=folder.resolve().name, request=request, steps=steps, events=events, damaged=torn + also)


def steps_of(log: Path) -> list[Numbers]:
    """The steps in a metrics.jsonl. What cannot be read is left out, and what is no number is unknown."""
    return [
        {name: value if isinstance(value, int | float) else None for name, value in each.items()}
        for each in _lines(log, {"step"})[0]
    ]


def _lines(path: Path, needed: set[str]) -> tuple[list[dict[str, Any]], int]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return [], 0
    found = []
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and isinstance(value.get("step"), int) and needed <= value.keys():
            found.append(value)
    return found, len(lines) - len(found)
