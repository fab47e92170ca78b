"""From rewards to advantages. A missing reward (None) enters no mean, no std and no count; its advantage is 0.

Groups are the attempts of one task. All functions work on one group, and give one advantage per attempt in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

Rewards = Sequence[float | None]


def group_mean(rewards: Rewards) -> list[float]:
    """A_i = R_i - mean(R): Dr. GRPO (arXiv 2503.20783), Kimi K2.5 (arXiv 2602.02276), GLM-5's agentic stage.

    A group with one valid reward gives 0: there is nothing to compare it with.
    """
    known = _known(rewards)
    mean = _mean(known)
    return [0.0 if reward is None or len(known) < 2 else reward - mean for reward in rewards]


def group_std(rewards: Rewards, *, flavour: Literal["sample", "population"] = "sample") -> list[float]:
    """A_i = (R_i - mean(R)) / std(R): GRPO (arXiv 2402.03300).

    "sample" divides squares by n - 1, as torch.std does and so most released code; "population" by n. A spread below
    1e-6 counts as none, and gives 0 instead of a division by a small constant that would blow up rounding errors.
    """
    known = _known(rewards)
    centred = group_mean(rewards)
    if len(known) < 2:
        return centred
    mean = _mean(known)
    squares = math.fsum((reward - mean) ** 2 for reward in known)
    std = math.sqrt(squares / (len(known) - (flavour == "sample")))
    return [0.0] * len(rewards) if std < SPREAD else [advantage / std for advantage in centred]


def leave_one_out(rewards: Rewards) -> list[float]:
    """A_i = R_i - mean of the others = n/(n-1) (R_i - mean(R)): RLOO (arXiv 2402.14740)."""
    number = len(_known(rewards))
    return [advantage * number / (number - 1) if number > 1 else 0.0 for advantage in group_mean(rewards)]


def fixed_baseline(rewards: Rewards, baseline: float) -> list[float]:
    """A_i = R_i - baseline.

    With the mean over a whole pool of which the group is a selection it is Reinforce-Ada's (arXiv 2510.04996); with the
    mean over a batch, or 0, it serves positive-only training, where centring a group of successes would leave nothing.
    """
    return [0.0 if reward is None else reward - baseline for reward in rewards]


def batch_mean(groups: Sequence[Rewards]) -> float:
    """The mean over all valid rewards of a batch; 0 where there is none."""
    return _mean([reward for rewards in groups for reward in rewards if reward is not None])


def has_signal(rewards: Rewards) -> bool:
    """Whether a group tells attempts apart. DAPO's dynamic sampling (arXiv 2503.14476) keeps such groups only."""
    known = _known(rewards)
    return len(known) > 1 and max(known) - min(known) > SPREAD


def chunk_returns(rewards: Sequence[float], gamma: float) -> list[float]:
    """G_k = r_k + gamma G_{k+1}, by chunk; eq. 7 of arXiv 2512.24873 where only the last chunk has a reward."""
    returns = [0.0] * len(rewards)
    total = 0.0
    for position in reversed(range(len(rewards))):
        total = rewards[position] + gamma * total
        returns[position] = total
    return returns


def generalised_advantage(
    rewards: Sequence[float], values: Sequence[float], *, gamma: float, lam: float
) -> tuple[list[float], list[float]]:
    """GAE (arXiv 1506.02438) over the trainable tokens of one row: advantages and the returns they imply.

    delta_t = r_t + gamma V_{t+1} - V_t,  A_t = delta_t + gamma lam A_{t+1}.  Only sampled tokens are passed, so that
    what the environment wrote between two of them costs no discount. The value after the last token is 0.
    """
    advantages = [0.0] * len(rewards)
    following, advantage = 0.0, 0.0
    for position in reversed(range(len(rewards))):
        delta = rewards[position] + gamma * following - values[position]
        advantage = delta + gamma * lam * advantage
        advantages[position] = advantage
        following = values[position]
    return advantages, [each + value for each, value in zip(advantages, values, strict=True)]


SPREAD = 1e-6
"""Rewards of a group closer together than this are the same."""


def _known(rewards: Rewards) -> list[float]:
    return [reward for reward in rewards if reward is not None]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
