"""What a trial and a job tell of themselves. Subscribers listen; nothing here knows them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum

from harness.records import TrialResult
from harness.store.layout import TrialPaths

RUNNING: ContextVar[TrialPaths | None] = ContextVar("RUNNING", default=None)
"""The trial that the current task works for: whose log a warning from below belongs in."""


class Phase(StrEnum):
    """Where a trial stands."""

    QUEUED = "queued"
    STARTING = "starting"
    PREPARING = "preparing"
    AGENT = "agent"
    VERIFYING = "verifying"
    COLLECTING = "collecting"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class TrialStarted:
    """A trial got its slot."""

    trial_name: str
    task_name: str


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """A trial entered a phase; `step` names the step of a task that has several."""

    trial_name: str
    phase: Phase
    step: str | None = None


@dataclass(frozen=True, slots=True)
class TrialFinished:
    """An execution ended, and its record is on disk."""

    result: TrialResult


@dataclass(frozen=True, slots=True)
class TrialRetried:
    """An execution failed for infrastructure's sake and will be repeated after `delay_sec`."""

    result: TrialResult
    delay_sec: float


@dataclass(frozen=True, slots=True)
class StoppedEarly:
    """Enough is known: nothing more is started. `why` says what was decided."""

    why: str


Event = TrialStarted | PhaseStarted | TrialFinished | TrialRetried | StoppedEarly
Emit = Callable[[Event], None]
