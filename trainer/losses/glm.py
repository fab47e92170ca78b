"""GLM-5's double-sided mask (arXiv 2602.15763, eq. 3-5): the sampler's log-probabilities alone are the denominator.

    loss_t = -sg(f(r_t)) A_t log pi(t),    f(x) = x where ratio_min < x < ratio_max, else 0

The bounds of the agentic stage are not published; [0.8, 1.28] are those of the same report's reasoning stage.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from trainer.losses.tokens import TokenLoss, Tokens


class GlmConfig(BaseModel):
    """The open interval of ratios that are trained on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ratio_min: float = Field(default=0.8, ge=0, lt=1, allow_inf_nan=False)
    ratio_max: float = Field(default=1.28, gt=1, allow_inf_nan=False)


def double_sided_mask(tokens: Tokens, config: GlmConfig) -> TokenLoss:
    """See the module."""
    ratio = tokens.ratio.detach()
    outside = (ratio <= config.ratio_min) | (ratio >= config.ratio_max)
    weight = ratio.masked_fill(outside, 0.0)
    return TokenLoss(loss=-weight * tokens.advantage * tokens.logp, flags={"masked": outside})
