"""What every objective is given, and what it returns.

An objective sees trainable tokens only. Masked positions are selected away before it is called, never multiplied away:
whatever stands there, NaN included, reaches neither a loss nor a gradient.

An objective gives one loss per token. How tokens are weighed against each other is a second, independent choice (see
`trainer.losses.weights`), and the loss of a step is the weighted sum: the same however the step is cut into
micro-batches or spread over ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

MAX_LOG_RATIO = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The N trainable tokens of whole rows, in order.

    Attributes:
        logp: log-probabilities under the policy in training, with gradient.
        behaviour: the same tokens' log-probabilities as recorded when they were sampled.
        advantage: per token.
        row: the row, that is the branch, of each token, from 0 without gaps. Rows are never split.
        chunk: the environment interaction of each token, from 0 and unique over rows.
        positive: whether the attempt earned a positive outcome, decided before any centring.
        proximal: log-probabilities at the beginning of the step under the trainer's own numerics, where they were
            recomputed; else None, and `behaviour` is the denominator.
        reference: log-probabilities under a reference policy; None without one.
    """

    logp: Tensor
    behaviour: Tensor
    advantage: Tensor
    row: Tensor
    chunk: Tensor
    positive: Tensor
    proximal: Tensor | None = None
    reference: Tensor | None = None

    @property
    def old(self) -> Tensor:
        """The denominator of the ratio: the proximal policy where there is one, else the behaviour policy."""
        return self.behaviour if self.proximal is None else self.proximal

    @property
    def log_ratio(self) -> Tensor:
        """log pi - log pi_old, with gradient."""
        return self.logp - self.old

    @property
    def ratio(self) -> Tensor:
        """pi / pi_old, with gradient. Constant beyond e^+-30: an overflow would make 0 * inf of a clipped token."""
        return self.log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLoss:
    """One loss per token, to be minimised, and shares of tokens worth watching.

    Attributes:
        loss: [N], with gradient.
        flags: name -> bool [N], e.g. which tokens were clipped; shown as shares.
    """

    loss: Tensor
    flags: dict[str, Tensor] = field(default_factory=dict)


Objective = Callable[[Tokens, Any], TokenLoss]
"""Takes the tokens and the objective's own settings."""


def segment_mean(values: Tensor, segment: Tensor) -> Tensor:
    """Per token, the mean of `values` [N] over its segment, numbered from 0."""
    number = int(segment.max()) + 1 if segment.numel() else 0
    sums = values.new_zeros(number).index_add(0, segment, values)
    counts = torch.bincount(segment, minlength=number).clamp(min=1)
    return (sums / counts)[segment]
