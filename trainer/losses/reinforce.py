"""The plain policy gradient: RLOO (arXiv 2402.14740), REINFORCE++ (arXiv 2501.03262) and their kin by their advantages.

    loss_t = -A_t log pi(t)

It knows no ratio: what is stale is left to the corrections, or to an objective that has one.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from trainer.losses.tokens import TokenLoss, Tokens


class ReinforceConfig(BaseModel):
    """Nothing to set."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def reinforce(tokens: Tokens, config: ReinforceConfig) -> TokenLoss:
    """See the module."""
    return TokenLoss(loss=-tokens.advantage * tokens.logp)
