"""The value function of PPO with a critic: its clipped loss (arXiv 1707.06347, and the released baselines).

loss_t = 1/2 max((v_t - R_t)^2, (clip(v_t, v_old_t - clip, v_old_t + clip) - R_t)^2)

The critic is one linear layer over the policy's last hidden state, where the token t is predicted: v_t is the value of
what was read before t. Its loss goes no further than that layer: a critic that has yet to learn would otherwise pull
the policy's own weights harder than the policy's loss does, so that a policy is moved by its advantages alone.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor


class CriticConfig(BaseModel):
    """The critic, and the generalised advantage (arXiv 1506.02438) that follows from it.

    With lam = 1, the default as in verl, an advantage is what came out less what was expected. Less than 1 lets a late
    reward fade over thousands of tokens (arXiv 2503.01491).

    Attributes:
        gamma, lam: the discounts per trained token.
        clip: how far a value may move within a step, in units of the reward; None leaves it free.
        lr: about how far a value moves by one update, in units of the reward, whatever the layer's width; a project
            default.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    gamma: float = Field(default=1.0, gt=0, le=1)
    lam: float = Field(default=1.0, ge=0, le=1)
    clip: float | None = Field(default=0.2, gt=0, allow_inf_nan=False)
    lr: float = Field(default=0.05, gt=0, allow_inf_nan=False)


def value_loss(value: Tensor, old_value: Tensor, returns: Tensor, clip: float | None = 0.2) -> Tensor:
    """The loss per token [N]. `clip` None leaves the value free."""
    free = (value - returns).square()
    if clip is None:
        return free / 2
    held = old_value + (value - old_value).clamp(-clip, clip)
    return torch.maximum(free, (held - returns).square()) / 2
