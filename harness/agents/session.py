"""What lasts from the first step of a trial to its last, while an agent's `run` keeps no state of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.agents.user import User
from harness.records import UserRecord
from harness.task.interaction import Interaction


@dataclass(slots=True, kw_only=True)
class Session:
    """One trial's talk with its agent.

    Attributes:
        interaction: what the task asks for.
        user: who answers questions; None is nobody.
        turns: what the user said after the first instruction, in messages.
        conversation: the agent's own, for the next step of a task that continues it; the harness never looks inside.
    """

    interaction: Interaction = field(default_factory=Interaction)
    user: User | None = None
    turns: int = 0
    conversation: Any = None

    def next_turn(self) -> str | None:
        """What the user says next, now that the agent has finished; None is nothing more."""
        if self.turns >= len(self.interaction.turns):
            return None
        self.turns += 1
        return self.interaction.turns[self.turns - 1]

    def record(self) -> UserRecord | None:
        """For the trial's record; None where the task's user neither answers nor says more than the instructions."""
        if self.user is None and not self.interaction.turns:
            return None
        record = self.user.record() if self.user else UserRecord()
        return record.model_copy(update={"turns": self.turns})

    def evidence(self) -> dict[str, bytes]:
        """Files for the verifier's folder, by name: what only the harness can witness."""
        return {} if self.user is None else {"user.json": self.user.document()}
