"""Which outcomes are trained: successes alone at first, while data are large and noisy, and failures too from then on.

A failure teaches only if it is the policy's own. How well that can be told is measured as the share of attempts with a
valid reward; that it is taken for the quality of data is a choice of this project.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any


class Curriculum:
    """Successes alone for `steps` steps, and until the mean quality of the last `window` groups reaches `quality`.

    Once both signs are trained they stay so.
    """

    def __init__(self, *, steps: int, quality: float | None, window: int) -> None:
        """`quality` None asks for none."""
        self._steps, self._quality = steps, quality
        self._recent: deque[float] = deque(maxlen=window)
        self._both = False

    def saw(self, valid_share: float) -> None:
        """Take the next group, with its share of attempts whose reward is valid."""
        self._recent.append(valid_share)

    def positive_only(self, step: int) -> bool:
        """Whether the step with this number, from 0, trains successes alone."""
        self._both = self._both or (step >= self._steps and self._good())
        return not self._both

    def _good(self) -> bool:
        if self._quality is None:
            return True
        full = len(self._recent) == self._recent.maxlen
        return full and math.fsum(self._recent) >= self._quality * len(self._recent)

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"recent": list(self._recent), "both": self._both}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a checkpoint's state."""
        self._recent.clear()
        self._recent.extend(state["recent"])
        self._both = state["both"]
