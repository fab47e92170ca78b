"""Rewards shaped by length: what an attempt cost is taken into account before rewards become advantages.

Lengths are sampled tokens of the whole attempt. A reward of None is missing, and stays so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def overlong_penalty(length: int, *, max_length: int, cache: int) -> float:
    """DAPO's soft punishment (arXiv 2503.14476): 0 up to max_length - cache, then linear to -1 at max_length.

    The paper's setting is max_length 20,480 with a cache of 4,096.
    """
    start = max_length - cache
    if length <= start:
        return 0.0
    return max(-1.0, (start - length) / cache)


def length_rewards(lengths: Sequence[int], correct: Sequence[bool]) -> list[float]:
    """Kimi K1.5 (arXiv 2501.12599): lambda_i = 0.5 - (len_i - min) / (max - min); wrong attempts get min(0, lambda_i).

    A group whose attempts are equally long gets 0 throughout.
    """
    shortest, longest = min(lengths), max(lengths)
    if longest == shortest:
        return [0.0] * len(lengths)
    scale = [0.5 - (length - shortest) / (longest - shortest) for length in lengths]
    return [value if right else min(0.0, value) for value, right in zip(scale, correct, strict=True)]


def length_budget(lengths: Sequence[int], correct: Sequence[bool], percentile: float) -> float:
    """Kimi K2.5's budget of a task (arXiv 2602.02276, eq. 2): a percentile of the lengths of its correct attempts.

    By linear interpolation between order statistics. Without a correct attempt there is no budget: infinity.
    """
    kept = sorted(length for length, right in zip(lengths, correct, strict=True) if right)
    if not kept:
        return math.inf
    position = (len(kept) - 1) * percentile / 100
    below = math.floor(position)
    above = min(below + 1, len(kept) - 1)
    return kept[below] + (kept[above] - kept[below]) * (position - below)


def toggled_rewards(
    rewards: Sequence[float | None],
    lengths: Sequence[int],
    *,
    step: int,
    period: int,
    threshold: float,
    budget: float,
) -> list[float | None]:
    """Kimi K2.5's Toggle (arXiv 2602.02276, eq. 2): in every other period, what is over budget earns nothing.

    Phase 0 (step // period even) keeps a reward where the group's mean is below `threshold`, or the attempt is within
    `budget`; phase 1 keeps all. Period, threshold and percentile are not published.
    """
    known = [reward for reward in rewards if reward is not None]
    weak = not known or math.fsum(known) / len(known) < threshold
    if (step // period) % 2 or weak:
        return list(rewards)
    return [
        reward if reward is None or length <= budget else 0.0 for reward, length in zip(rewards, lengths, strict=True)
    ]
