"""Log-probabilities of chosen tokens from hidden states, without ever holding the logits of a long batch.

The output layer is applied to a chunk of tokens at a time. Backward needs the probabilities again: they are kept for as
many tokens as `_KEPT` allows, and computed a second time for the rest. So memory is bounded, and a batch that fits
costs no more than the plain computation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_CHUNK = 1 << 22
"""Logits computed at a time, in elements (tokens times vocabulary)."""
_KEPT = 1 << 26
"""Probabilities kept from forward to backward, in elements: 256 MB of fp32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The output layer: logits = cap(scale * (hidden @ weight.T + bias)), cap(x) = softcap * tanh(x / softcap).

    `full_precision` computes it in fp32 (or more) whatever the rest of the model computes in, as MiniMax-M1
    (arXiv 2506.13585) found necessary for the trainer's probabilities to agree with the sampler's.
    """

    weight: Tensor
    bias: Tensor | None = None
    scale: float = 1.0
    softcap: float | None = None
    full_precision: bool = True


def selected_logprobs(hidden: Tensor, head: Head, target: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
    """log softmax(logits / temperature)[target] of hidden states [N, d]; and entropies, without gradient. Both [N]."""
    # Only without a backward to come is grad mode off here; inside the function it always is.
    room = _KEPT if torch.is_grad_enabled() and head.softcap is None else 0
    logp, entropy = _SelectedLogProbs.apply(  # type: ignore[no-untyped-call]
        hidden, head.weight, head.bias, target, temperature, head, room
    )
    return logp, entropy


class _SelectedLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        temperature: Tensor,
        head: Head,
        room: int,
    ) -> tuple[Tensor, Tensor]:
        number, dtype = len(hidden), torch.promote_types(hidden.dtype, torch.float32)
        logp = torch.empty(number, dtype=dtype, device=hidden.device)
        entropy = torch.empty_like(logp)
        temperature = temperature.to(dtype)
        kept: dict[int, Tensor] = {}
        for start, stop in _chunks(number, len(weight)):
            logits = logits_of(hidden[start:stop], weight, bias, head)
            logits.div_(temperature[start:stop, None])
            logits.sub_(logits.amax(-1, keepdim=True))
            chosen = logits.gather(1, target[start:stop, None]).squeeze(1)
            odds = logits.exp()
            total = odds.sum(-1)
            logp[start:stop] = chosen - total.log()
            entropy[start:stop] = total.log() - torch.linalg.vecdot(odds, logits) / total
            if odds.numel() <= room:
                room -= odds.numel()
                kept[start] = odds.div_(total[:, None])
        ctx.save_for_backward(hidden, weight, bias, target, temperature)
        ctx.head, ctx.kept = head, kept
        ctx.mark_non_differentiable(entropy)
        return logp, entropy

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, target, temperature = ctx.saved_tensors
        head: Head = ctx.head
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        dtype = grad.dtype
        to_hidden = torch.empty_like(hidden) if needs_hidden else None
        to_weight = torch.zeros(weight.shape, dtype=dtype, device=weight.device) if needs_weight else None
        to_bias = torch.zeros(len(weight), dtype=dtype, device=weight.device) if needs_bias else None
        for start, stop in _chunks(len(hidden), len(weight)):
            piece, scaled = hidden[start:stop], grad[start:stop, None] / temperature[start:stop, None]
            slope = None
            probabilities = ctx.kept.pop(start, None)
            if probabilities is None:
                logits = logits_of(piece, weight, bias, head)
                slope = None if head.softcap is None else 1 - (logits / head.softcap).square()
                probabilities = logits.div_(temperature[start:stop, None]).softmax(-1)
            # d logp / d logits = (1[target] - p) / temperature
            to_logits = probabilities.mul_(-scaled)
            to_logits.scatter_add_(1, target[start:stop, None], scaled)
            if slope is not None:
                to_logits.mul_(slope)
            if head.scale != 1:
                to_logits.mul_(head.scale)
            factor = to_logits if head.full_precision else to_logits.to(piece.dtype)
            if to_hidden is not None:
                to_hidden[start:stop] = factor @ weight.to(factor.dtype)
            if to_weight is not None:
                if factor.dtype == dtype:
                    to_weight.addmm_(factor.T, piece.to(dtype))
                else:
                    to_weight += factor.T @ piece
            if to_bias is not None:
                to_bias += to_logits.sum(0)
        return (
            to_hidden,
            None if to_weight is None else to_weight.to(weight.dtype),
            None if to_bias is None or bias is None else to_bias.to(bias.dtype),
            None,
            None,
            None,
            None,
        )


def _chunks(number: int, vocabulary: int) -> list[tuple[int, int]]:
    size = max(1, _CHUNK // vocabulary)
    return [(start, min(start + size, number)) for start in range(0, number, size)]


def logits_of(hidden: Tensor, weight: Tensor, bias: Tensor | None, head: Head) -> Tensor:
    """A chunk's logits in fp32 or more."""
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    inner = dtype if head.full_precision else hidden.dtype
    # An autocast around the model would undo the choice of precision.
    with torch.autocast(hidden.device.type, enabled=False):
        logits = torch.nn.functional.linear(
            hidden.to(inner), weight.to(inner), None if bias is None else bias.to(inner)
        ).to(dtype)
    if head.scale != 1:
        logits.mul_(head.scale)
    return logits if head.softcap is None else logits.div_(head.softcap).tanh_().mul_(head.softcap)
