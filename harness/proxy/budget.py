"""What the agent of one trial may spend through the proxy, and what it has spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.failures import AgentStop
from harness.llm.protocol import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of one trial; None is no limit.

    Attributes:
        requests: answers of the model, those of sub-agents and of history summaries included.
        tokens: input and output together, over all answers.
        cost_usd: US dollars. Answers without a known price do not count, so a price must be configured.
        seconds: from the opening of the lease on.
    """

    requests: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None


class Account:
    """Counts what one trial spends.

    A request is taken before the model is asked, so that requests side by side cannot overdraw their number; tokens and
    cost are known afterwards, so that the answers in flight may overdraw theirs.
    """

    def __init__(self, budget: Budget, clock: Callable[[], float]) -> None:
        self._budget = budget
        self._clock = clock
        self._opened = clock()
        self._taken = 0
        self.answers = 0
        self.tokens = 0
        self.cost_usd = 0.0

    def take(self) -> None:
        """Set a request aside for an answer that is asked for."""
        self._taken += 1

    def give_back(self) -> None:
        """There was no answer."""
        self._taken -= 1

    def add(self, reply: Reply) -> None:
        """Count one answer. What the endpoint does not tell counts as nothing; the requests bound it all the same."""
        self.answers += 1
        self.tokens += (reply.prompt_tokens or 0) + (reply.completion_tokens or 0)
        self.cost_usd += reply.cost_usd or 0.0

    def time_left(self) -> float:
        """Seconds; infinite without a limit."""
        if self._budget.seconds is None:
            return float("inf")
        return self._opened + self._budget.seconds - self._clock()

    def exceeded(self) -> tuple[AgentStop, str] | None:
        """The limit that forbids another request, and a line about it."""
        budget = self._budget
        if self.time_left() <= 0:
            return AgentStop.TIMEOUT, f"the model's time of {budget.seconds:g} s is over"
        if budget.requests is not None and self._taken >= budget.requests:
            return AgentStop.MAX_TURNS, f"all {budget.requests} requests to the model used"
        if budget.tokens is not None and self.tokens >= budget.tokens:
            return AgentStop.TOKEN_BUDGET, f"{self.tokens} of {budget.tokens} tokens used"
        if budget.cost_usd is not None and self.cost_usd >= budget.cost_usd:
            return AgentStop.COST_BUDGET, f"${self.cost_usd:.4f} of ${budget.cost_usd:g} spent"
        return None
