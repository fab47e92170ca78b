"""How tokens are weighed against each other: one weight per token, from counts over the whole optimiser step.

The loss of a step is sum_t weight_t * loss_t. Since the counts are of all micro-batches and ranks, neither the cut into
micro-batches nor the number of ranks changes the gradient; a mean of per-batch means would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Weighting = Literal["token", "rollout", "constant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """Of one optimiser step, over all ranks.

    Attributes:
        tokens: trainable tokens.
        rollouts: attempts with at least one trainable token.
    """

    tokens: int
    rollouts: int


def row_weights(
    weighting: Weighting,
    *,
    rollout_tokens: Sequence[int],
    counts: StepCounts,
    max_tokens: int | None = None,
) -> list[float]:
    """The weight of each token of each row; `rollout_tokens` holds, by row, the trainable tokens of its whole attempt.

    "token": 1 / tokens of the step (DAPO, arXiv 2503.14476, and CISPO, arXiv 2506.13585).
    "rollout": 1 / (attempts * tokens of the attempt), the mean of means of GRPO (arXiv 2402.03300). The branches of one
    attempt share its weight, so that an agent that compacts its context does not count several times.
    "constant": 1 / (attempts * max_tokens), Dr. GRPO (arXiv 2503.20783); `max_tokens` is a constant of the
    configuration and never taken from the batch.

    Raises ValueError where "constant" has no `max_tokens`.
    """
    if weighting == "token":
        return [1.0 / counts.tokens if counts.tokens else 0.0] * len(rollout_tokens)
    if weighting == "constant":
        if not max_tokens:
            raise ValueError("weighting 'constant' needs max_tokens, the length that every rollout is divided by")
        return [1.0 / (counts.rollouts * max_tokens) if counts.rollouts else 0.0] * len(rollout_tokens)
    return [1.0 / (counts.rollouts * tokens) if tokens else 0.0 for tokens in rollout_tokens]
