"""What a run cost: tokens, money, and how much of it is unknown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from harness.atif.model import Metrics, Step

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Totals over model calls.

    Attributes:
        prompt_tokens: input, the cached part counted once; None when no call told.
        cached_tokens: the part of `prompt_tokens` that came from a cache; None when no call told.
        completion_tokens: output, reasoning counted once; None when no call told.
        cost_usd: the sum of the priced calls; None when no call had a price.
        calls: model calls.
        unpriced_calls: those among them without a known price.
        incomplete: some call did not tell its tokens, so that the totals are a lower bound.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    calls: int = 0
    unpriced_calls: int = 0
    incomplete: bool = False

    def plus(self, step: Step) -> Usage:
        """These totals and one more step's. Copied context, and steps without a model call, add nothing."""
        if step.source != "agent" or step.is_copied_context or step.llm_call_count == 0:
            return self
        return self.plus_calls(step.metrics or Metrics(), step.llm_call_count or 1)

    def plus_calls(self, metrics: Metrics, calls: int = 1) -> Usage:
        """These totals and those of further model calls."""
        return replace(
            self,
            prompt_tokens=_add(self.prompt_tokens, metrics.prompt_tokens),
            cached_tokens=_add(self.cached_tokens, metrics.cached_tokens),
            completion_tokens=_add(self.completion_tokens, metrics.completion_tokens),
            cost_usd=_add(self.cost_usd, metrics.cost_usd),
            calls=self.calls + calls,
            unpriced_calls=self.unpriced_calls + (calls if metrics.cost_usd is None else 0),
            incomplete=self.incomplete or metrics.prompt_tokens is None or metrics.completion_tokens is None,
        )

    def and_of(self, other: Usage) -> Usage:
        """These totals and those of another trajectory."""
        return Usage(
            prompt_tokens=_add(self.prompt_tokens, other.prompt_tokens),
            cached_tokens=_add(self.cached_tokens, other.cached_tokens),
            completion_tokens=_add(self.completion_tokens, other.completion_tokens),
            cost_usd=_add(self.cost_usd, other.cost_usd),
            calls=self.calls + other.calls,
            unpriced_calls=self.unpriced_calls + other.unpriced_calls,
            incomplete=self.incomplete or other.incomplete,
        )


def _add(total: N | None, part: N | None) -> N | None:
    if part is None:
        return total
    return part if total is None else total + part
