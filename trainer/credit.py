"""What each trained token is credited with: the last word on advantages, once those of a whole step are known.

Without a critic, an attempt's advantage is that of all its tokens. With one, tokens have their own: the planner leaves
the reward in the advantage's place, and `by_critic` puts the generalised advantage there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.advantages import SPREAD, generalised_advantage
from trainer.losses.value import CriticConfig
from trainer.samples.batch import StepBatch, TrainingRow

Values = Mapping[str, NDArray[np.float32]]
"""By sample_id, what the critic expected before each trained token."""


def by_critic(batch: StepBatch, values: Values, config: CriticConfig) -> StepBatch:
    """The batch with generalised advantages, and the returns that the critic learns from.

    A row is an episode of its trained tokens: what the environment wrote between two of them costs no discount, and
    the attempt's reward is due after the last one.
    """
    return replace(batch, rows=tuple(_judged(row, values[row.sample_id], config) for row in batch.rows))


def _judged(row: TrainingRow, values: NDArray[np.float32], config: CriticConfig) -> TrainingRow:
    place = row.places
    rewards = [0.0] * (len(place) - 1) + [float(row.advantage[place[-1]])]
    estimated, returned = generalised_advantage(rewards, values.tolist(), gamma=config.gamma, lam=config.lam)

    def spread(numbers: Sequence[float] | NDArray[np.float32]) -> NDArray[np.float32]:
        found = np.zeros(len(row), dtype=np.float32)
        found[place] = numbers
        return found

    return replace(row, advantage=spread(estimated), returns=spread(returned), values=spread(values))


def settled(rows: Sequence[TrainingRow], *, whiten: bool, negative_weight: float) -> tuple[TrainingRow, ...]:
    """Advantages as they enter the loss: to mean 0 and standard deviation 1 over all trained tokens where `whiten`
    says so, and then those of attempts without a positive outcome times `negative_weight`."""
    shift, scale = _whitening(rows) if whiten else (0.0, 1.0)

    def one(row: TrainingRow) -> TrainingRow:
        factor = scale if row.positive else scale * negative_weight
        if not shift and factor == 1:
            return row
        return replace(row, advantage=((row.advantage - shift) * factor).astype(np.float32))

    return tuple(map(one, rows))


def _whitening(rows: Sequence[TrainingRow]) -> tuple[float, float]:
    """What to subtract, and then to multiply by. One token has nothing to be compared with, and stays as it is."""
    if sum(row.trained for row in rows) < 2:
        return 0.0, 1.0
    every = np.concatenate([row.advantage[row.places] for row in rows]).astype(np.float64)
    spread = float(every.std(ddof=1))
    return float(every.mean()), 1.0 if spread < SPREAD else 1 / spread


def gathered(rows: Sequence[TrainingRow], name: str, like: Tensor) -> Tensor:
    """[N], one of the rows' arrays at their trained tokens, in the order of a micro-batch."""
    values = np.concatenate([getattr(row, name)[row.places] for row in rows])
    return torch.from_numpy(values).to(like)
