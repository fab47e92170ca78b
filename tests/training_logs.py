"""Logs of training whose course is known: sound but for what a test says."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Log = list[dict[str, Any]]


def log(steps: int = 100, *, seed: int = 0, **curves: Callable[[int], float | None]) -> Log:
    """A sound run of 128 attempts a step, a little noisy, but for the given numbers as functions of the step."""
    noise = random.Random(seed)
    sound: dict[str, Callable[[int], float | None]] = {
        "reward_mean": lambda step: 0.5,
        "entropy": lambda step: 1.0 + noise.uniform(-0.05, 0.05),
        "positive_rollouts": lambda step: 64 + noise.randint(-6, 6),
        "negative_rollouts": lambda step: 64 + noise.randint(-6, 6),
        "rollouts": lambda step: 128,
        "length_negative_max": lambda step: 8000 + noise.randint(-800, 800),
        "negative_gradient_share": lambda step: 0.5 + noise.uniform(-0.05, 0.05),
        "top_gradient_share": lambda step: 0.05,
        "effective_group_ratio": lambda step: 0.7 + noise.uniform(-0.1, 0.1),
        "negative_token_share": lambda step: 0.5,
        "behaviour_k3": lambda step: 0.004,
        "ess": lambda step: 0.95,
        "looped_call_share": lambda step: 0.05 + noise.uniform(-0.02, 0.02),
    }
    return [
        {"step": step, **{name: curve(step) for name, curve in (sound | curves).items()}}
        for step in range(1, steps + 1)
    ]
