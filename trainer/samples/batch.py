"""What one optimiser step trains on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trainer.losses.weights import StepCounts, Weighting


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRow:
    """One branch of one attempt, after all masks. Token arrays have one length; those marked * mean something only
    where `mask` is set, and may hold anything elsewhere.

    Attributes:
        token_ids: what the policy read and sampled.
        mask: the tokens to train.
        behaviour*: log-probabilities of the policy that sampled.
        advantage*: per token.
        chunk*: the environment interaction, from 0.
        weight: of each of its tokens in the step's loss.
        positive: whether the attempt earned a positive outcome, decided before centring.
        temperature: that logits are divided by before log-probabilities are taken.
        staleness: versions between the oldest weights that sampled it and the current ones; None if unknown.
        truncated: whether the token limit cut its last answer.
        returns*, values*: what a critic learns, and what it expected at the step's beginning; None without one.
    """

    sample_id: str
    rollout_id: str
    group_id: str
    token_ids: NDArray[np.int32]
    mask: NDArray[np.bool_]
    behaviour: NDArray[np.float32]
    advantage: NDArray[np.float32]
    chunk: NDArray[np.int32]
    weight: float
    positive: bool
    reward: float
    temperature: float = 1.0
    staleness: int | None = None
    truncated: bool = False
    returns: NDArray[np.float32] | None = None
    values: NDArray[np.float32] | None = None

    @property
    def trained(self) -> int:
        """Tokens to train."""
        return int(self.mask[1:].sum())

    @property
    def places(self) -> NDArray[np.int64]:
        """Where they are. The first token of a row is predicted by nothing, and is never trained."""
        return np.flatnonzero(self.mask[1:]) + 1

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch:
    """The rows of one optimiser step of this rank.

    Attributes:
        rows: never empty of trainable tokens, each.
        counts: of the whole step, over all ranks; the weights of the rows already follow from them.
        groups: attempts' groups that the step was made from.
        whiten: whether advantages still have to be brought to mean 0 and standard deviation 1, as a critic's have.
        filtered: name of a filter -> attempts (or groups, for group filters) that it took.
        rewards: valid rewards of the attempts in the step, those without signal included.
        solved: of each group seen, whether its valid attempts were positive.
        signal: of each of them that has a valid reward, whether its rewards differ.
        sequences: of each group seen, the tool calls of its attempts as far as they are known.
        calls: sums over attempts, by the names of the export's `behaviour`.
    """

    rows: tuple[TrainingRow, ...]
    counts: StepCounts
    groups: int
    whiten: bool = False
    filtered: Counter[str] = field(default_factory=Counter)
    rewards: tuple[float, ...] = ()
    solved: tuple[tuple[bool, ...], ...] = ()
    signal: tuple[bool, ...] = ()
    sequences: tuple[tuple[tuple[str, ...], ...], ...] = ()
    calls: Counter[str] = field(default_factory=Counter)

    def split(self, parts: int, weighting: Weighting) -> list[StepBatch]:
        """The batch as at most `parts` batches of whole groups, each weighed by its own counts and none empty."""
        if parts == 1:
            return [self] if self.rows else []
        names = list(dict.fromkeys(row.group_id for row in self.rows))
        part_of = {name: number % parts for number, name in enumerate(names)}
        found = []
        for number in range(min(parts, len(names))):
            rows = [row for row in self.rows if part_of[row.group_id] == number]
            counts = StepCounts(tokens=sum(row.trained for row in rows), rollouts=len({row.rollout_id for row in rows}))
            # Every weight is 1 / (a count of the step * something of the attempt); only the count is another one.
            scale = (
                self.counts.tokens / counts.tokens if weighting == "token" else self.counts.rollouts / counts.rollouts
            )
            reweighed = tuple(replace(row, weight=row.weight * scale) for row in rows)
            found.append(replace(self, rows=reweighed, counts=counts))
        return found
