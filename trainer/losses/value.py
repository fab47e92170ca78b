"""The value function of PPO with a critic: its clipped loss (arXiv 1707.06347, and the released baselines).

loss_t = 1/2 max((v_t - R_t)^2, (clip(v_t, v_old_t - clip, v_old_t + clip) - R_t)^2)
"""

from __future__ import annotations

import torch
from torch import Tensor


def value_loss(value: Tensor, old_value: Tensor, returns: Tensor, clip: float | None = 0.2) -> Tensor:
    """The loss per token [N]. `clip` None leaves the value free."""
    free = (value - returns).square()
    if clip is None:
        return free / 2
    held = old_value + (value - old_value).clamp(-clip, clip)
    return torch.maximum(free, (held - returns).square()) / 2
