"""Tasks of several steps: whether the next one runs, and what one reward they make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from harness.trial.reward import Reward


def meets(reward: Reward, minimum: Mapping[str, float]) -> bool:
    """Whether every gated key reaches its threshold; a key that is missing does not."""
    return all(
        (reward.value if key == "reward" else reward.parts.get(key, -math.inf)) >= threshold
        for key, threshold in minimum.items()
    )


def combine_rewards(
    rewards: Sequence[Mapping[str, float] | None], strategy: Literal["mean", "final"], n_steps: int
) -> tuple[dict[str, float], float]:
    """The parts and the headline of a task from the rewards of its steps, in order.

    "final" takes the last step's, and "mean" the mean by key over all steps, in both of which a step that was not
    reached earned nothing. The headline is the part `reward`, else the mean of all parts.
    """
    if strategy == "final" or n_steps == 1:
        reached = len(rewards) == n_steps
        last = dict(rewards[-1] or {}) if rewards else {}
        parts = last if reached else dict.fromkeys(last, 0.0)
    else:
        keys = list(dict.fromkeys(key for reward in rewards if reward for key in reward))
        parts = {key: math.fsum((reward or {}).get(key, 0.0) for reward in rewards) / n_steps for key in keys}
    value = parts["reward"] if "reward" in parts else math.fsum(parts.values()) / len(parts) if parts else 0.0
    return parts, value
