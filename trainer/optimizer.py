"""AdamW as configured, its learning rate, and the gradient's norm over all ranks."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from trainer.config import OptimizerConfig


def make_optimizer(parameters: Iterable[nn.Parameter], config: OptimizerConfig) -> torch.optim.AdamW:
    """AdamW over what is trainable. Norms and biases do not decay."""
    trainable = [each for each in parameters if each.requires_grad]
    return torch.optim.AdamW(
        [
            {"params": [each for each in trainable if each.dim() > 1], "weight_decay": config.weight_decay},
            {"params": [each for each in trainable if each.dim() <= 1], "weight_decay": 0.0},
        ],
        lr=config.lr,
        betas=config.betas,
        eps=config.eps,
    )


def add_critic(optimizer: torch.optim.AdamW, head: nn.Linear, rate: float) -> None:
    """A last group for the critic: it does not decay, and its rate is its own, divided by the layer's width."""
    optimizer.add_param_group(
        {"params": list(head.parameters()), "weight_decay": 0.0, "lr": rate / head.in_features, "own_rate": True}
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """For the next update; a group with a rate of its own keeps it."""
    for group in optimizer.param_groups:
        if not group.get("own_rate"):
            group["lr"] = rate


def learning_rate(config: OptimizerConfig, update: int) -> float:
    """Of the update with this number, from 0: linear over the warm-up, then constant."""
    return config.lr * min(1.0, (update + 1) / (config.warmup_steps + 1))


def clip_gradient(parameters: Iterable[nn.Parameter], limit: float | None) -> float:
    """Scale the gradient down to the limit; its norm before that. A norm that is not finite leaves it as it is."""
    held = [each for each in parameters if each.grad is not None]
    total = torch.nn.utils.get_total_norm([each.grad for each in held if each.grad is not None])
    norm: Tensor = total.full_tensor() if isinstance(total, DTensor) else total
    value = float(norm)
    if limit is not None and limit < value < float("inf"):
        torch.nn.utils.clip_grads_with_norm_(held, limit, total)
    return value
