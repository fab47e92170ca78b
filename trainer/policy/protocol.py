"""What the trainer asks of a policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor, nn

from trainer.samples.collate import MicroBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What a policy says of the N trained tokens of a micro-batch.

    Attributes:
        logp: [N], their log-probabilities at the tokens' temperatures, with gradient.
        entropy: [N], of the distributions they were taken from, in nats, without gradient.
        value: [N], what a critic expects before each of them, with gradient; None without a critic.
    """

    logp: Tensor
    entropy: Tensor
    value: Tensor | None = None


class Policy(Protocol):
    """A model in training. Deterministic: what would drop activations out is switched off."""

    @property
    def module(self) -> nn.Module:
        """What holds the parameters, and what is sharded over ranks."""

    @property
    def value_head(self) -> nn.Linear | None:
        """The critic's own layer, part of `module`; None without a critic."""

    @property
    def vocab_size(self) -> int:
        """Token ids lie below."""

    @property
    def packs(self) -> bool:
        """Whether micro-batches are packed: faster, and possible for this model."""

    @property
    def max_tokens(self) -> int | None:
        """The longest row; None for no limit."""

    @property
    def fingerprint(self) -> str | None:
        """Of the tokenizer (`harness.export.retokenize.fingerprint_of`); None where the policy has none."""

    def score(self, batch: MicroBatch) -> Scores:
        """Score the trained tokens. Memory does not grow with tokens times vocabulary."""

    def save(self, folder: Path) -> None:
        """Write what transformers loads as it is. Over several ranks, all have to call it; the first one writes."""
