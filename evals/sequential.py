"""The stop rule behind `harness run --sequential`: is the success rate of tasks like these above a threshold or below?

The unit is the task: its value is the share of its attempts that passed. An attempt that says nothing of the agent is
counted as failed in the evidence for above, and as passed in that for below, so that trouble of the infrastructure can
delay a decision and never make one.
"""

from __future__ import annotations

from evals.stats.sequential import ThresholdBets
from harness.errors import UsageError
from harness.job.early import Decision, TaskCounts


class SuccessRate:
    """Decides by e-values: wrong with probability at most `alpha`, however often it is asked."""

    name = "success_rate"

    def __init__(self, threshold: float, alpha: float) -> None:
        self._threshold = threshold
        self._alpha = alpha
        self._bets = ThresholdBets(threshold)
        self._tasks = 0

    def add(self, task: TaskCounts) -> Decision | None:
        """Take the next task in the random order; None to go on."""
        missing = task.total - task.counted
        self._bets.add(task.passed / task.total, (task.passed + missing) / task.total)
        self._tasks += 1
        for above, e_value in ((True, self._bets.above), (False, self._bets.below)):
            if e_value >= 1 / self._alpha:
                return Decision(
                    rule=self.name,
                    above=above,
                    threshold=self._threshold,
                    alpha=self._alpha,
                    e_value=e_value,
                    tasks=self._tasks,
                )
        return None


def success_rate(threshold: float, alpha: float) -> SuccessRate:
    """The rule. Raises UsageError for a threshold or an alpha that is none."""
    if not (0 < threshold < 1 and 0 < alpha < 1):
        raise UsageError(f"--sequential {threshold:g} --alpha {alpha:g}: both lie between 0 and 1")
    return SuccessRate(threshold, alpha)
