"""The likelihood of what was sampled: supervised fine-tuning, and the imitation part of mixed objectives.

loss_t = -log pi(t)
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from trainer.losses.tokens import TokenLoss, Tokens


class SftConfig(BaseModel):
    """`positive_only` leaves out attempts without a positive outcome."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    positive_only: bool = True


def sft(tokens: Tokens, config: SftConfig) -> TokenLoss:
    """See the module."""
    loss = -tokens.logp
    if config.positive_only:
        loss = loss.masked_fill(~tokens.positive, 0.0)
    return TokenLoss(loss=loss)
