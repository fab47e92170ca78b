"""How likely a task is to be solved next time: a Beta posterior for each, which forgets as the policy changes.

It stands in for VIP's Gaussian process over embeddings of prompts, which a task's own history makes unnecessary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DISCOUNT = 0.9
"""What past evidence keeps of its weight at each update; a project default."""


class SuccessEstimates:
    """One posterior for each task. A task never seen is expected to be solved half the time."""

    def __init__(self, *, discount: float = DISCOUNT, prior: tuple[float, float] = (1.0, 1.0)) -> None:
        self._discount, self._prior = discount, prior
        self._counts: dict[str, tuple[float, float]] = {}

    def update(self, task: str, *, solved: int, failed: int) -> None:
        """Take the outcomes of one group. Attempts without a valid reward are neither."""
        good, bad = self._counts.get(task, (0.0, 0.0))
        self._counts[task] = (good * self._discount + solved, bad * self._discount + failed)

    def success(self, task: str) -> float:
        """The posterior's mean."""
        good, bad = self._counts.get(task, (0.0, 0.0))
        return (good + self._prior[0]) / (good + bad + sum(self._prior))

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {task: list(counts) for task, counts in self._counts.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a checkpoint's state."""
        self._counts = {task: (float(good), float(bad)) for task, (good, bad) in state.items()}
