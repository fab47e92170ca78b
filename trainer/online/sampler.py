"""Which tasks are sampled next, and how often each: one wave is what a training step is made from.

Tasks come in a seeded order, a pass after the other. One that nearly always or nearly never succeeds teaches little:
it rests, and is looked at again after some waves, since the policy changes. Everything follows from the seed and from
the groups that ended, in order, so that a resumed loop goes on with the same waves.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from trainer.online.config import LoopConfig
from trainer.online.parts import Collected
from trainer.schedule.budget import uniform, vip
from trainer.schedule.success import SuccessEstimates


class Sampler:
    """The state of one loop's sampling."""

    def __init__(self, tasks: Sequence[str], config: LoopConfig) -> None:
        self._tasks = sorted(tasks)
        self._config = config
        self._positive = config.training.rewards.positive
        self._estimates = SuccessEstimates()
        self._seen: dict[str, int] = {}
        self._order: list[str] = []
        self._pass = self._wave = 0

    def hear(self, kind: str, value: Any) -> None:
        """What a ledger tells that is read again: waves were planned, groups finished."""
        if kind == "planned":
            self.next_wave()
        else:
            self.update(value)

    def update(self, group: Collected) -> None:
        """Take the outcomes of a group."""
        solved = sum(reward >= self._positive for reward in group.rewards)
        self._estimates.update(group.task, solved=solved, failed=len(group.rewards) - solved)

    def next_wave(self) -> list[tuple[str, int]]:
        """The next wave: a task and its number of attempts for each group."""
        count = self._config.collect.groups
        chosen = self._chosen(count)
        self._seen.update(dict.fromkeys(chosen, self._wave))
        self._wave += 1
        budget, each = self._config.budget, self._config.collect.attempts
        if budget.rule == "vip":
            success = [self._estimates.success(task) for task in chosen]
            high = self._config.vip_high
            shares = vip(success, count * each, low=budget.low, high=high, estimator=budget.estimator)
        else:
            shares = uniform(count, count * each)
        return list(zip(chosen, shares, strict=True))

    def _chosen(self, count: int) -> list[str]:
        chosen: list[str] = []
        skipped: list[str] = []
        while len(chosen) < count:
            if not self._order:
                if skipped and not chosen:
                    break
                self._pass += 1
                self._order = Random(f"{self._config.seed}/{self._pass}").sample(self._tasks, len(self._tasks))  # noqa: S311
            task = self._order.pop(0)
            if not self._rests(task):
                chosen.append(task)
            elif task not in skipped:
                skipped.append(task)
            elif len(skipped) + len(set(chosen)) >= len(self._tasks):
                break
        # Too few are awake: those that have rested longest are woken.
        longest = sorted(skipped, key=lambda task: (self._seen.get(task, -1), task))
        while len(chosen) < count:
            chosen += longest[: count - len(chosen)] or chosen[: count - len(chosen)]
        return chosen

    def _rests(self, task: str) -> bool:
        budget = self._config.budget
        if not budget.rest or task not in self._seen or self._wave - self._seen[task] > budget.rest:
            return False
        return not budget.hopeless < self._estimates.success(task) < budget.saturated
