"""Small batches of tokens with the numbers that a test needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from trainer.losses.tokens import Tokens


def tokens(
    log_ratios: Sequence[float],
    advantages: Sequence[float] | float = 1.0,
    *,
    rows: Sequence[int] | None = None,
    chunks: Sequence[int] | None = None,
    positive: bool | Sequence[bool] = True,
    mismatch: Sequence[float] | None = None,
    logp: float = math.log(0.5),
) -> Tokens:
    """Tokens with these log-ratios; `mismatch` is log(pi_old / mu), which makes a proximal policy."""
    number = len(log_ratios)
    current = torch.full((number,), logp, dtype=torch.float64)
    old = current - torch.tensor(log_ratios, dtype=torch.float64)
    behaviour = old if mismatch is None else old - torch.tensor(mismatch, dtype=torch.float64)
    row = torch.tensor(rows if rows is not None else [0] * number)
    return Tokens(
        logp=current.requires_grad_(),
        behaviour=behaviour,
        proximal=None if mismatch is None else old,
        advantage=torch.tensor(advantages, dtype=torch.float64).expand(number).clone(),
        row=row,
        chunk=row if chunks is None else torch.tensor(chunks),
        positive=torch.tensor(positive).expand(number).clone(),
    )


def coefficients(loss: torch.Tensor, batch: Tokens) -> list[float]:
    """What each token's log-probability is pushed by: -d loss / d logp."""
    (gradient,) = torch.autograd.grad(loss.sum(), batch.logp)
    return [-float(each) for each in gradient]
