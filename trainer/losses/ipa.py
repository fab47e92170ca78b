"""IPA's chunk-level reinforcement (ROME, arXiv 2512.24873, eq. 7-9). A chunk is one interaction with the environment.

    rho_c = exp(mean_{t in c} log r_t)
    m_c   = exp(mean_{t in c} log(pi_old / mu)) <= mismatch_max          (the whole chunk, the upper side only)
    loss_t = -m_c A_t log pi(t)                           chunks of positive attempts
    loss_t = -m_c sg(clip(rho_c, 0, 1)) A_t log pi(t)     chunks of the others

A_t is the chunk's return (`trainer.advantages.chunk_returns`), the same for all its tokens. The mismatch needs both the
proximal and the behaviour policy; where the proximal one was not recomputed, the policy in training stands in for it.
The sampling distribution under the sums is where tokens come from, not a factor. The bound is not published.

Two published parts need more than tokens: `imitation_weight` adds the plain likelihood of positive attempts
(eq. 10's first half, with pi(c)G read as G), and resampling from anchors is a matter of the rollouts.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field

from trainer.losses.tokens import TokenLoss, Tokens, segment_mean


class IpaConfig(BaseModel):
    """Project defaults, except where the report says otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mismatch_max: float = Field(default=1.25, ge=1, allow_inf_nan=False)
    imitation_weight: float = Field(default=0.0, ge=0, allow_inf_nan=False)


def ipa_chunk(tokens: Tokens, config: IpaConfig) -> TokenLoss:
    """See the module."""
    current = tokens.logp.detach() if tokens.proximal is None else tokens.proximal
    mismatched = segment_mean(current - tokens.behaviour, tokens.chunk).exp() > config.mismatch_max
    rho = segment_mean(tokens.log_ratio.detach(), tokens.chunk).exp()
    weight = torch.where(tokens.positive, torch.ones_like(rho), rho.clamp(0.0, 1.0)).masked_fill(mismatched, 0.0)
    loss = -weight * tokens.advantage * tokens.logp
    if config.imitation_weight:
        loss = loss - config.imitation_weight * tokens.positive * tokens.logp
    return TokenLoss(loss=loss, flags={"masked": mismatched, "truncated": ~tokens.positive & (rho > 1.0) & ~mismatched})
