"""GSPO (arXiv 2507.18071): ratio and clip by sequence, in the form whose gradient goes to every token.

    s = exp(mean_t log r_t),    s_t = sg(s) pi(t) / sg(pi(t))
    loss_t = -min(s_t A_t, clip(s_t, ratio_min, ratio_max) A_t)

The mean is over the trainable tokens of a row. The bounds are of the order 1e-4: PPO's would never clip.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field

from trainer.losses.tokens import MAX_LOG_RATIO, TokenLoss, Tokens, segment_mean


class GspoConfig(BaseModel):
    """Bounds of the sequence ratio; the defaults are the paper's 3e-4 and 4e-4."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ratio_min: float = Field(default=1 - 3e-4, ge=0, le=1, allow_inf_nan=False)
    ratio_max: float = Field(default=1 + 4e-4, ge=1, allow_inf_nan=False)


def gspo(tokens: Tokens, config: GspoConfig) -> TokenLoss:
    """See the module."""
    sequence = segment_mean(tokens.log_ratio.detach(), tokens.row).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    ratio = (sequence + tokens.logp - tokens.logp.detach()).exp()
    advantage = tokens.advantage
    objective = torch.minimum(ratio * advantage, ratio.clamp(config.ratio_min, config.ratio_max) * advantage)
    value = ratio.detach()
    return TokenLoss(
        loss=-objective,
        flags={
            "clipped_high": (value > config.ratio_max) & (advantage > 0),
            "clipped_low": (value < config.ratio_min) & (advantage < 0),
        },
    )
