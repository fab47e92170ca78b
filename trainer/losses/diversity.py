"""Diversity-aware policy optimisation (arXiv 2505.23433): an entropy bonus on the attempts that succeeded.

    J_div = -1[positive] r_t log pi(t),    loss_t = -weight * J_div

The paper's weight is 0.01, and up to 0.02 does no harm.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.losses.tokens import Tokens


class DiversityConfig(BaseModel):
    """The weight of the bonus."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weight: float = Field(default=0.01, gt=0, allow_inf_nan=False)


def diversity_bonus(tokens: Tokens, config: DiversityConfig) -> Tensor:
    """The loss per token [N]."""
    return config.weight * tokens.positive * tokens.ratio * tokens.logp
