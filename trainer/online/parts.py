"""What the loop is made of, as protocols, and the values that pass between them.

rollouts -> groups of attempts -> (windowed FIFO) -> leases -> training -> weights -> serving -> rollouts
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt that is over: its number within the task, its folder; `reward` None where none is valid."""

    number: int
    trial: str
    reward: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A group to be collected.

    Attributes:
        attempts: that it is meant to have.
        first, reserved: its attempts' numbers within the task lie in [first, first + reserved).
        version: of the policy, now.
    """

    number: int
    task: str
    attempts: int
    first: int
    reserved: int
    version: int

    @property
    def name(self) -> str:
        """Sets its attempts apart from the task's others, in their records."""
        return f"g{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A group that is over.

    Attributes:
        version: of the policy when its first attempt was planned: the oldest that can have sampled any of it.
        size: attempts that were meant to be.
        attempts: those that count, in the order in which they ended.
        left_out: trials that only count in the group's mean (Reinforce-Ada's, beyond those that are kept).
    """

    number: int
    task: str
    version: int
    size: int
    attempts: tuple[Attempt, ...]
    left_out: tuple[str, ...] = ()

    @property
    def rewards(self) -> list[float]:
        """The valid ones."""
        return [each.reward for each in self.attempts if each.reward is not None]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Collected:
        """Read back."""
        attempts = tuple(Attempt(**each) for each in document["attempts"])
        return cls(**{**document, "attempts": attempts, "left_out": tuple(document["left_out"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The groups of one training step, which makes version `step` of the policy."""

    step: int
    groups: tuple[Collected, ...]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"step": self.step, "groups": [group.document() for group in self.groups]}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Lease:
        """Read back."""
        return cls(step=document["step"], groups=tuple(map(Collected.of, document["groups"])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What came of a lease: the new weights' folder, the step's numbers, and why training has to stop, if so."""

    step: int
    weights: Path
    metrics: Mapping[str, Any]
    halt: str | None = None


class Rollouts(Protocol):
    """Where attempts come from."""

    async def attempt(self, task: str, number: int, *, group: str) -> Attempt:
        """Run one, or read back one that came to its end before. Cancelling ends it, for the reason of its message."""

    async def room(self) -> None:
        """Wait until an attempt would start at once: what only waits grows old."""


class Training(Protocol):
    """What turns groups into weights."""

    async def train(self, lease: Lease, loop: Mapping[str, float]) -> Trained:
        """One step. `loop`: numbers of the loop itself, to be logged with the step's."""


class Serving(Protocol):
    """What answers the agents' model calls."""

    async def publish(self, version: int, weights: Path) -> None:
        """Sample from these weights from now on."""


class Evaluation(Protocol):
    """What measures success on the held-out tasks."""

    async def measure(self, version: int) -> None:
        """Run the held-out tasks under this version, and report."""
