"""Correcting for a sampler that is not the trainer: engines round differently, and samples may be stale.

The weight pi_proximal / mu_behaviour multiplies the loss of a token, detached. It exists only where the proximal policy
was recomputed. With the behaviour policy as the denominator the objective's own ratio covers the mismatch already, and
a second weight would count it twice: that combination is refused when the configuration is read.

    "tis": the weight, truncated at `weight_max` (verl and slime use 2).
    "icepop": the weight inside [weight_min, weight_max], 0 outside (GLM-5, arXiv 2602.15763, [1/2, 2]).
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.losses.tokens import Tokens, segment_mean


class CorrectionConfig(BaseModel):
    """`level`: over which tokens the geometric mean of the weight is taken."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["tis", "icepop"] = "tis"
    level: Literal["token", "chunk", "row"] = "token"
    weight_min: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    weight_max: float = Field(default=2.0, gt=0, allow_inf_nan=False)


def correction_weight(tokens: Tokens, config: CorrectionConfig) -> tuple[Tensor, Tensor]:
    """The weight per token [N], and which tokens were cut. Raises ValueError without a proximal policy."""
    if tokens.proximal is None:
        raise ValueError("a correction needs the proximal policy: recompute it, or drop the correction")
    mismatch = (tokens.proximal - tokens.behaviour).detach()
    if config.level != "token":
        mismatch = segment_mean(mismatch, tokens.chunk if config.level == "chunk" else tokens.row)
    weight = mismatch.exp()
    if config.kind == "tis":
        return weight.clamp(max=config.weight_max), weight > config.weight_max
    outside = (weight < config.weight_min) | (weight > config.weight_max)
    return torch.where(outside, torch.zeros_like(weight), weight), outside
