"""Reinforce-Ada (arXiv 2510.04996): a prompt is sampled in rounds until it has something to teach.

In each round every prompt that has not left yet gets `per_round` more attempts, which join its pool. It leaves when its
pool holds a success ("positive"), or n/2 of either kind ("balance"). Of the pool, n attempts are trained on, half of
either kind as far as there are so many; their advantages are r - mean(r) over the *whole* pool, without a division by
the standard deviation: what was picked for balance would be a biased baseline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

Exit = Literal["positive", "balance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaRule:
    """The published defaults: 4 of at most 4 rounds of 8.

    Attributes:
        keep: attempts that are trained on, n.
        per_round, rounds: attempts that are sampled.
        exit: when a prompt leaves.
        positive: a success is an attempt whose reward is above this.
    """

    keep: int = 4
    per_round: int = 8
    rounds: int = 4
    exit: Exit = "balance"
    positive: float = 0.7

    def left(self, rewards: Sequence[float]) -> bool:
        """Whether a prompt with this pool is done, because it succeeded or because its rounds are over."""
        return self.resolved(rewards) or len(rewards) >= self.per_round * self.rounds

    def resolved(self, rewards: Sequence[float]) -> bool:
        """Whether the pool meets the exit's condition. What is not resolved in the end is left out of training."""
        good = sum(reward > self.positive for reward in rewards)
        return self._met(good, len(rewards))

    def picked(self, rewards: Sequence[float], random: Random) -> list[int]:
        """Which attempts of the pool are trained on, in the pool's order.

        They are drawn, not taken from the front: attempts that finish early are not like those that finish late.
        """
        good = [number for number, reward in enumerate(rewards) if reward > self.positive]
        bad = [number for number, reward in enumerate(rewards) if reward <= self.positive]
        n_good = min(len(good), max(self.keep // 2, self.keep - len(bad)))
        n_bad = min(len(bad), self.keep - n_good)
        return sorted([*random.sample(good, n_good), *random.sample(bad, n_bad)])

    def exit_probability(self, success: float, samples: int) -> float:
        """That a prompt which is solved with probability `success` has left within so many samples."""
        return math.fsum(
            math.comb(samples, good) * success**good * (1 - success) ** (samples - good)
            for good in range(samples + 1)
            if self._met(good, samples)
        )

    def expected_samples(self, success: float) -> float:
        """How many attempts such a prompt costs on average."""
        # A pool only grows, and what it has met it goes on meeting.
        stays = (1 - self.exit_probability(success, done * self.per_round) for done in range(self.rounds))
        return self.per_round * math.fsum(stays)

    def _met(self, good: int, samples: int) -> bool:
        if self.exit == "positive":
            return good >= 1
        return 2 * good >= self.keep and 2 * (samples - good) >= self.keep


def pool_advantages(rewards: Sequence[float], picked: Sequence[int]) -> list[float]:
    """Advantages of the picked attempts against the whole pool's mean."""
    mean = math.fsum(rewards) / len(rewards)
    return [rewards[number] - mean for number in picked]


def gate_open(success: float, attempts: int) -> float:
    """That a group of so many attempts holds both outcomes, so that it teaches something."""
    return 1 - success**attempts - (1 - success) ** attempts
