"""What a run may spend, and what it has spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.failures import AgentStop
from harness.llm.protocol import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of one run; None is no limit.

    Attributes:
        turns: answers of the model.
        tokens: input and output together, over all calls.
        cost_usd: US dollars. Calls without a known price do not count, so a price must be configured.
    """

    turns: int
    tokens: int | None = None
    cost_usd: float | None = None


class Spending:
    """Counts what one run spends, its sub-agents included; `turns` are its own answers.

    A turn is taken before the model is asked, so that sub-agents at work side by side cannot overdraw the budget.
    """

    def __init__(self, budget: Budget, seconds: float, clock: Callable[[], float]) -> None:
        self._budget = budget
        self._clock = clock
        self._deadline = clock() + seconds
        self._parent: Spending | None = None
        self._taken = 0
        self.turns = 0
        self.tokens = 0
        self.cost_usd = 0.0

    def child(self, turns: int) -> Spending:
        """For a sub-agent: at most so many turns, and whatever it spends is spent here, too."""
        child = Spending(Budget(turns=turns), self.time_left(), self._clock)
        child._parent = self
        return child

    def take_turn(self) -> None:
        """Set a turn aside for an answer that is asked for."""
        self._taken += 1
        if self._parent:
            self._parent.take_turn()

    def give_back_turn(self) -> None:
        """There was no answer."""
        self._taken -= 1
        if self._parent:
            self._parent.give_back_turn()

    def add(self, reply: Reply) -> None:
        """Count one answer. What the endpoint does not tell counts as nothing; turns bound it all the same."""
        self.turns += 1
        self._pay((reply.prompt_tokens or 0) + (reply.completion_tokens or 0), reply.cost_usd or 0.0)

    def _pay(self, tokens: int, cost_usd: float) -> None:
        self.tokens += tokens
        self.cost_usd += cost_usd
        if self._parent:
            self._parent._pay(tokens, cost_usd)

    def time_left(self) -> float:
        """Seconds until the trial cancels the run."""
        return self._deadline - self._clock()

    def exceeded(self) -> tuple[AgentStop, str] | None:
        """The limit that forbids another turn, and a line about it."""
        budget = self._budget
        if self.time_left() <= 0:
            return AgentStop.TIMEOUT, "no time left"
        if self._taken >= budget.turns:
            return AgentStop.MAX_TURNS, f"all {budget.turns} turns used"
        if budget.tokens is not None and self.tokens >= budget.tokens:
            return AgentStop.TOKEN_BUDGET, f"{self.tokens} of {budget.tokens} tokens used"
        if budget.cost_usd is not None and self.cost_usd >= budget.cost_usd:
            return AgentStop.COST_BUDGET, f"${self.cost_usd:.4f} of ${budget.cost_usd:g} spent"
        return self._parent.exceeded() if self._parent else None
