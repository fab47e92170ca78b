"""What a trial and a job tell of themselves. Subscribers listen; nothing here knows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from harness.records import TrialResult


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
    trial_name: str
    task_name: str


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    trial_name: str
    phase: Phase
    step: str | None = None


@dataclass(frozen=True, slots=True)
class TrialFinished:
    result: TrialResult


@dataclass(frozen=True, slots=True)
class TrialRetried:
    """An execution failed for infrastructure's sake and will be repeated after `delay_sec`."""

    result: TrialResult
    delay_sec: float


Event = TrialStarted | PhaseStarted | TrialFinished | TrialRetried
Emit = Callable[[Event], None]
