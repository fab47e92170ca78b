"""CISPO (MiniMax-M1, arXiv 2506.13585, eq. 4-5): the importance weight is clipped, and no token loses its gradient.

    loss_t = -sg(clip(r_t, ratio_min, ratio_max)) A_t log pi(t)

The paper tunes the upper bound only and does not publish it; [0, 5] is ScaleRL's recipe and this project's default.
The loss value itself means nothing: watch gradients and ratios. `unified_mask` adds the paper's optional trust region
(eq. 6-7), which masks tokens as PPO would.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trainer.losses.tokens import TokenLoss, Tokens


class CispoConfig(BaseModel):
    """Bounds of the weight itself, not offsets from 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ratio_min: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    ratio_max: float = Field(default=5.0, gt=0, allow_inf_nan=False)
    unified_mask: bool = False

    @model_validator(mode="after")
    def _in_order(self) -> CispoConfig:
        if not self.ratio_min <= 1 <= self.ratio_max:
            raise ValueError(f"the weight's bounds must enclose 1, not [{self.ratio_min:g}, {self.ratio_max:g}]")
        return self


def cispo(tokens: Tokens, config: CispoConfig) -> TokenLoss:
    """See the module."""
    ratio = tokens.ratio.detach()
    weight = ratio.clamp(config.ratio_min, config.ratio_max)
    flags = {"clipped_high": ratio > config.ratio_max, "clipped_low": ratio < config.ratio_min}
    if config.unified_mask:
        outside = ((tokens.advantage > 0) & (ratio > config.ratio_max)) | (
            (tokens.advantage < 0) & (ratio < config.ratio_min)
        )
        weight = weight.masked_fill(outside, 0.0)
        flags["masked"] = outside
    return TokenLoss(loss=-weight * tokens.advantage * tokens.logp, flags=flags)
