"""From logits to sampled tokens and their log-probabilities, for rows that were each asked for differently.

One uniform number decides each token (the inverse of the cumulative distribution), so that a request with a seed
samples the same whatever else is in its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

LogprobsMode = Literal["raw", "processed"]
"""Log-probabilities of the model's own distribution, as vLLM gives them, or of the one after temperature. In neither do
`top_p` and `top_k` count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How one request is sampled.

    Attributes:
        temperature: 0 is greedy.
        top_p, top_k: the smallest set of likeliest tokens that has this probability, out of the `top_k` likeliest.
        max_tokens: at most so many.
        stop: texts before which the answer ends.
        seed: None draws one.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None

    @property
    def truncates(self) -> bool:
        """Whether some tokens can never be sampled."""
        return self.top_p < 1 or self.top_k is not None


@torch.inference_mode()
def sample(
    logits: Tensor, asked: Sequence[Sampling], draws: Sequence[float], mode: LogprobsMode
) -> tuple[list[int], list[float]]:
    """A token and its log-probability for each row of `logits` [n, vocabulary]; `draws` are uniform in [0, 1)."""
    device = logits.device
    plain = logits.log_softmax(-1)
    if all(each.temperature == 1 for each in asked):
        tempered = plain
    else:
        heat = torch.tensor([each.temperature or 1.0 for each in asked], device=device)
        tempered = (logits / heat[:, None]).log_softmax(-1)
    if all(each.temperature == 0 for each in asked):
        ids = plain.argmax(-1)
    else:
        odds = tempered.exp()
        if any(each.truncates for each in asked):
            odds = _truncated(odds, asked)
        reached = odds.double().cumsum(-1)
        point = torch.tensor(draws, dtype=torch.float64, device=device) * reached[:, -1]
        ids = torch.searchsorted(reached, point[:, None], right=True)[:, 0].clamp_(max=logits.shape[1] - 1)
        greedy = [each.temperature == 0 for each in asked]
        if any(greedy):
            ids = torch.where(torch.tensor(greedy, device=device), plain.argmax(-1), ids)
    chosen = (plain if mode == "raw" else tempered).gather(1, ids[:, None])[:, 0]
    return ids.tolist(), chosen.tolist()


def _truncated(odds: Tensor, asked: Sequence[Sampling]) -> Tensor:
    """The probabilities with 0 for what `top_k` and then `top_p` leave out; they need not add up to 1."""
    size, device = odds.shape[1], odds.device
    ordered, order = odds.sort(stable=True, dim=-1, descending=True)
    most = torch.tensor([each.top_k or size for each in asked], device=device)
    ordered = ordered.masked_fill(torch.arange(size, device=device) >= most[:, None], 0.0)
    before = ordered.cumsum(-1) - ordered
    share = torch.tensor([each.top_p for each in asked], device=device)[:, None] * ordered.sum(-1, keepdim=True)
    kept = before < share
    kept[:, 0] = True
    return torch.zeros_like(odds).scatter_(1, order, ordered * kept)
