"""From what the verifier said to the number that is learned from: the headline or weighted parts, shaped by length."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import Any

from harness.errors import UsageError
from trainer.config import RewardConfig, ToggleConfig
from trainer.samples.rollouts import Group, Rollout
from trainer.shaping import length_budget, length_rewards, overlong_penalty, toggled_rewards


class Rewards:
    """See the module. It remembers the budgets of tasks, which are estimated once."""

    def __init__(self, config: RewardConfig) -> None:
        self._config = config
        self._budgets: dict[str, float] = {}

    def require(self, told: Set[str]) -> None:
        """Raises UsageError where none of the parts is among those that attempts were told: all rewards would be 0."""
        parts = self._config.parts
        if parts and not told & parts.keys():
            known = ", ".join(sorted(told)) or "none at all"
            raise UsageError(f"rewards.parts: no attempt has the part {' or '.join(parts)}; there is {known}")

    def earned(self, group: Group) -> list[float | None]:
        """The headline or weighted parts of each attempt, before shaping."""
        return [_reward(rollout, self._config.parts) for rollout in group.rollouts]

    def of(self, groups: Sequence[Group], step: int) -> list[list[float | None]]:
        """The rewards of each group's attempts."""
        return [self._shaped(group, step) for group in groups]

    def _shaped(self, group: Group, step: int) -> list[float | None]:
        config = self._config
        rewards = self.earned(group)
        lengths = [rollout.sampled for rollout in group.rollouts]
        right = [rollout.reward is not None and rollout.reward >= config.positive for rollout in group.rollouts]
        if config.toggle is not None:
            rewards = self._toggled(group, rewards, lengths, right, config.toggle, step)
        extra = [0.0] * len(rewards)
        if config.overlong is not None:
            longest, cache = config.overlong
            extra = [overlong_penalty(length, max_length=longest, cache=cache) for length in lengths]
        known = [number for number, reward in enumerate(rewards) if reward is not None]
        if config.length_weight and known:
            by_length = length_rewards([lengths[number] for number in known], [right[number] for number in known])
            for number, value in zip(known, by_length, strict=True):
                extra[number] += config.length_weight * value
        return [None if reward is None else reward + more for reward, more in zip(rewards, extra, strict=True)]

    def _toggled(
        self,
        group: Group,
        rewards: Sequence[float | None],
        lengths: Sequence[int],
        right: Sequence[bool],
        toggle: ToggleConfig,
        step: int,
    ) -> list[float | None]:
        row = group.rollouts[0].rows[0]
        task = f"{row.task}@{row.task_digest}"
        if task not in self._budgets and any(right):
            self._budgets[task] = length_budget(lengths, right, toggle.percentile)
        return toggled_rewards(
            rewards,
            lengths,
            step=step,
            period=toggle.period,
            threshold=toggle.threshold,
            budget=self._budgets.get(task, math.inf),
        )

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return dict(self._budgets)

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a checkpoint's state."""
        self._budgets = dict(state)


def _reward(rollout: Rollout, parts: dict[str, float]) -> float | None:
    if rollout.reward is None or not parts:
        return rollout.reward
    own = rollout.rows[0].reward_parts
    return sum(weight * own[key] for key, weight in parts.items() if key in own)
