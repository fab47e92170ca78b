"""What the loop did, one line of JSON an event, appended before the next thing happens. Its state is a fold over it.

planned   the groups of the next wave: tasks and attempts
started   a group's attempts may begin; what is started is later finished or lost, and nothing else
finished  a group's attempts are over; their records lie in the job's folder
lost      a group will never be trained, and why
leased    the groups of one training step

A step is done once a checkpoint of it is there. A loop that goes on from a checkpoint trains the leases after it again,
the same ones in the same order, so that in the weights that result every group was trained once.
"""

from __future__ import annotations

import json
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from harness.errors import UsageError
from trainer.online.parts import Collected, Lease, Plan


@dataclass(slots=True)
class State:
    """Where the loop stands.

    Attributes:
        planned: (task, attempts) of groups that were not started yet.
        open: started groups by number. ready: finished ones that no step has taken.
        leases: of all steps, by step.
        lost: groups that were never trained, by why.
        attempts: numbers that a task's attempts have used up.
        started: groups that were started, ever.
        waves: that were planned, ever.
    """

    planned: deque[tuple[str, int]] = field(default_factory=deque)
    open: dict[int, Plan] = field(default_factory=dict)
    ready: dict[int, Collected] = field(default_factory=dict)
    leases: dict[int, Lease] = field(default_factory=dict)
    lost: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    started: int = 0
    waves: int = 0

    @property
    def step(self) -> int:
        """The newest step that was leased."""
        return max(self.leases, default=0)


class Ledger:
    """The file and the state that follows from it."""

    def __init__(self, path: Path, listen: Callable[[str, Any], None] = lambda kind, value: None) -> None:
        """Read what is there, without a torn last line. `listen` hears of every wave and group again, in order.

        Raises UsageError for a file that is damaged elsewhere.
        """
        self.state = State()
        length = 0
        for number, (line, end) in enumerate(_lines(path), 1):
            try:
                event = json.loads(line)
                self._apply(event)
                if event["event"] == "planned":
                    listen("planned", None)
                elif event["event"] == "finished":
                    listen("finished", self.state.ready[event["number"]])
            except (ValueError, KeyError, TypeError) as error:
                raise UsageError(f"{path}:{number} is damaged: {error!r}") from error
            length = end
        self._file = path.open("ab")
        self._file.truncate(length)

    def planned(self, wave: list[tuple[str, int]]) -> None:
        """A wave follows."""
        self._append({"event": "planned", "groups": wave})

    def started(self, plan: Plan) -> None:
        """The first planned group begins."""
        self._append({"event": "started", **asdict(plan)})

    def finished(self, group: Collected) -> None:
        """An open group has ended."""
        self._append({"event": "finished", **group.document()})

    def lost(self, number: int, why: str) -> None:
        """An open or a ready group is given up."""
        self._append({"event": "lost", "number": number, "why": why})

    def leased(self, step: int, numbers: list[int]) -> Lease:
        """Ready groups are trained next."""
        self._append({"event": "leased", "step": step, "numbers": numbers})
        # A checkpoint of the step may not be on the disk before this line and all above it are.
        os.fdatasync(self._file.fileno())
        return self.state.leases[step]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self._file.close()

    def _append(self, event: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(event, allow_nan=False).encode() + b"\n")
        self._file.flush()
        self._apply(event)

    def _apply(self, event: Mapping[str, Any]) -> None:
        state = self.state
        fields = {key: value for key, value in event.items() if key != "event"}
        kind = event["event"]
        if kind == "planned":
            state.planned.extend((task, attempts) for task, attempts in fields["groups"])
            state.waves += 1
        elif kind == "started":
            plan = Plan(**fields)
            state.planned.popleft()
            state.open[plan.number] = plan
            state.started = plan.number + 1
            state.attempts[plan.task] = plan.first + plan.reserved - 1
        elif kind == "finished":
            group = Collected.of(fields)
            del state.open[group.number]
            state.ready[group.number] = group
        elif kind == "lost":
            state.open.pop(fields["number"], None) or state.ready.pop(fields["number"])
            state.lost[fields["why"]] += 1
        elif kind == "leased":
            groups = tuple(state.ready.pop(number) for number in fields["numbers"])
            state.leases[fields["step"]] = Lease(step=fields["step"], groups=groups)
        else:
            raise ValueError(f"unknown event {kind!r}")


def _lines(path: Path) -> Iterator[tuple[bytes, int]]:
    """The whole lines of a file, and where each ends."""
    end = 0
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
        end += len(line)
        if line.endswith(b"\n"):
            yield line, end
