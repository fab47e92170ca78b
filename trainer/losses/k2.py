"""Kimi K2.5 (arXiv 2602.02276, section 4.4.2): a trust region in log space that ignores the sign of the advantage.

    loss_t = -keep_t r_t A_t + penalty * (log r_t)^2,    keep_t = log_ratio_min <= log r_t <= log_ratio_max

The gradient is normal inside the region and zero outside, so masking equals the paper's Clip. The penalty holds for all
tokens, and pulls hardest where the region let go. The paper publishes none of the three constants: the defaults are
this project's.
"""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, Field

from trainer.losses.tokens import TokenLoss, Tokens


class K2Config(BaseModel):
    """Bounds of the log-ratio, and the weight of the squared penalty. Project defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    log_ratio_min: float = Field(default=math.log(0.5), le=0, allow_inf_nan=False)
    log_ratio_max: float = Field(default=math.log(2.0), ge=0, allow_inf_nan=False)
    penalty: float = Field(default=1e-3, ge=0, allow_inf_nan=False)


def k2_token_clip(tokens: Tokens, config: K2Config) -> TokenLoss:
    """See the module."""
    log_ratio = tokens.log_ratio
    outside = (log_ratio < config.log_ratio_min) | (log_ratio > config.log_ratio_max)
    # Selected before exp: outside, exp may overflow, and 0 * inf would poison the gradient.
    surrogate = log_ratio.masked_fill(outside, 0.0).exp().masked_fill(outside, 0.0) * tokens.advantage
    return TokenLoss(loss=-surrogate + config.penalty * log_ratio.square(), flags={"masked": outside})
