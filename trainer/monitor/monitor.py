"""Takes each step's numbers, and tells what changed: an invariant's level, a diagnosis, a remedy.

It is a function of the numbers alone: fed with a log from its first line, it stands where it stood, remedies included.
That is how a resumed run goes on, and why every rank comes to the same conclusion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trainer.config import TrainConfig
from trainer.monitor.diagnosis import Finding, diagnose
from trainer.monitor.history import History
from trainer.monitor.invariants import INVARIANTS, Level, Reading, read
from trainer.monitor.remedy import Remedy
from trainer.monitor.settings import Invariant

Kind = Literal["invariant", "finding", "remedy"]

_TIMES = 3
"""How often one setting is changed: what did not help three times will not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that changed at a step.

    Attributes:
        name: of the invariant, or of the finding. level: the invariant's new one, or "found", "over", "applied".
        before: the invariant's level until now.
        evidence: the numbers behind it.
        change: the setting that is recommended or was applied, as `--set` takes it.
        says: what that does.
    """

    step: int
    kind: Kind
    name: str
    level: str
    before: str | None = None
    evidence: str = ""
    change: str | None = None
    says: str | None = None

    def document(self) -> dict[str, Any]:
        """As a line of events.jsonl."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Observation:
    """After a step: how the invariants stand, what is diagnosed, what changed, and why the run has to end, if so."""

    readings: Mapping[Invariant, Reading]
    findings: tuple[Finding, ...]
    events: tuple[Event, ...]
    halt: str | None = None


class Monitor:
    """The state of one run's watch. `config` is the request with the remedies so far; the loop trains by that one."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self._history = History(config.monitor.start)
        self._levels: dict[Invariant, Level] = dict.fromkeys(INVARIANTS, Level.UNKNOWN)
        self._found: set[str] = set()
        self._quiet_until = 0
        self._applied: Counter[str] = Counter()

    def observe(self, metrics: Mapping[str, float | int | None]) -> Observation:
        """Take the next step; `metrics` holds its number as "step"."""
        step = int(metrics["step"] or 0)
        self._history.add(metrics)
        readings = read(self._history, self.config.monitor)
        # What a remedy was applied to is still in the window, and would be found again.
        findings = diagnose(self._history, self.config, readings) if step >= self._quiet_until else []
        events = [*self._invariants(step, readings), *self._findings(step, findings), *self._remedy(step, findings)]
        return Observation(readings, tuple(findings), tuple(events), self._halt(readings))

    def _invariants(self, step: int, readings: Mapping[Invariant, Reading]) -> list[Event]:
        changed = [name for name, reading in readings.items() if reading.level != self._levels[name]]
        before, self._levels = self._levels, {name: reading.level for name, reading in readings.items()}
        return [
            Event(
                step=step,
                kind="invariant",
                name=name,
                level=str(readings[name].level),
                before=str(before[name]),
                evidence="; ".join(readings[name].evidence),
            )
            for name in changed
        ]

    def _findings(self, step: int, findings: list[Finding]) -> list[Event]:
        names = {finding.name for finding in findings}
        new = [
            self._told(step, "finding", "found", finding, self._mildest(finding))
            for finding in findings
            if finding.name not in self._found
        ]
        over = [
            Event(step=step, kind="finding", name=name, level="over")
            for name in sorted(self._found - names)
            if step >= self._quiet_until
        ]
        if step >= self._quiet_until:
            self._found = names
        return [*over, *new]

    def _remedy(self, step: int, findings: list[Finding]) -> list[Event]:
        if not findings or not self.config.monitor.auto_remedy:
            return []
        finding = findings[0]
        remedy = self._mildest(finding)
        if remedy is None:
            return []
        self.config = remedy.apply(self.config)
        self._applied[remedy.setting] += 1
        self._quiet_until = step + self.config.monitor.patience
        return [self._told(step, "remedy", "applied", finding, remedy)]

    def _mildest(self, finding: Finding) -> Remedy | None:
        return next((each for each in finding.remedies if self._applied[each.setting] < _TIMES), None)

    @staticmethod
    def _told(step: int, kind: Kind, level: str, finding: Finding, remedy: Remedy | None) -> Event:
        return Event(
            step=step,
            kind=kind,
            name=finding.name,
            level=level,
            evidence=finding.evidence,
            change=None if remedy is None else remedy.change,
            says=None if remedy is None else remedy.says,
        )

    def _halt(self, readings: Mapping[Invariant, Reading]) -> str | None:
        for name in self.config.monitor.halt_on:
            if readings[name].level is Level.ALARM:
                return f"{name} is lost: {'; '.join(readings[name].evidence)}"
        return None
