"""The clipped surrogate: PPO (arXiv 1707.06347), and with group advantages GRPO, Dr. GRPO and DAPO.

    loss_t = -min(r_t A_t, clip(r_t, ratio_min, ratio_max) A_t),    r_t = pi(t) / pi_old(t)

Dual clip (arXiv 1912.09729) bounds the loss of a token with A < 0 at -dual_clip * A.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator

from trainer.losses.tokens import TokenLoss, Tokens


class ClipConfig(BaseModel):
    """Bounds of the ratio itself, not offsets from 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ratio_min: float = Field(default=0.8, ge=0, allow_inf_nan=False)
    ratio_max: float = Field(default=1.2, gt=0, allow_inf_nan=False)
    dual_clip: float | None = Field(default=None, gt=1, allow_inf_nan=False)

    @model_validator(mode="after")
    def _in_order(self) -> ClipConfig:
        if not self.ratio_min <= 1 <= self.ratio_max:
            raise ValueError(f"the ratio's bounds must enclose 1, not [{self.ratio_min:g}, {self.ratio_max:g}]")
        return self


def clipped_surrogate(tokens: Tokens, config: ClipConfig) -> TokenLoss:
    """See the module."""
    ratio = tokens.ratio
    advantage = tokens.advantage
    free = ratio * advantage
    held = ratio.clamp(config.ratio_min, config.ratio_max) * advantage
    objective = torch.minimum(free, held)
    flags = {
        "clipped_high": (ratio > config.ratio_max) & (advantage > 0),
        "clipped_low": (ratio < config.ratio_min) & (advantage < 0),
    }
    if config.dual_clip is not None:
        floor = config.dual_clip * advantage
        flags["dual_clipped"] = (advantage < 0) & (objective < floor)
        objective = torch.where(advantage < 0, torch.maximum(objective, floor), objective)
    return TokenLoss(loss=-objective, flags=flags)
