"""TOPR (arXiv 2503.14286; eq. 5 of arXiv 2512.24873): full weight for what worked, a truncated one for what did not.

    loss_t = -A_t log pi(t)                                 positive attempts
    loss_t = -sg(clip(rho, 0, 1)) A_t log pi(t)             the others,   rho = exp(mean_t log r_t) of the row

`negative_weight = 0` is positive-only training.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field

from trainer.losses.tokens import TokenLoss, Tokens, segment_mean


class ToprConfig(BaseModel):
    """Weights of the two halves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    positive_weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    negative_weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)


def topr(tokens: Tokens, config: ToprConfig) -> TokenLoss:
    """See the module."""
    rho = segment_mean(tokens.log_ratio.detach(), tokens.row).exp()
    weight = torch.where(tokens.positive, config.positive_weight, config.negative_weight * rho.clamp(0.0, 1.0))
    return TokenLoss(loss=-weight * tokens.advantage * tokens.logp, flags={"truncated": ~tokens.positive & (rho > 1.0)})
