"""One group from its first attempt to its last: more are started than are needed, and nobody waits for the slowest.

The group is done with the first attempts that end with a valid reward, as many as it is meant to have. What still runs
is cancelled, which its record tells, and not waited for: an environment that hangs holds its slot, and no step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from trainer.online.parts import Attempt, Collected, Plan, Rollouts
from trainer.schedule.ada import AdaRule

_ENOUGH = 2
"""Attempts from which a group that ran out of time is a group: one alone compares with nothing."""


@dataclass(slots=True, kw_only=True)
class Collector:
    """Collects groups.

    Attributes:
        redundant: attempts beyond those that a group, or a round, is meant to have.
        deadline_sec: of a group; None is without end.
        ada: shares out the attempts in rounds.
        leaving: cancelled attempts that have not ended yet.
    """

    rollouts: Rollouts
    redundant: int = 0
    deadline_sec: float | None = None
    ada: AdaRule | None = None
    seed: int = 0
    leaving: set[asyncio.Task[Attempt]] = field(default_factory=set)

    def reserved(self, attempts: int) -> int:
        """How many attempts a group may start that is meant to have so many."""
        if self.ada is None:
            return attempts + self.redundant
        return self.ada.rounds * (self.ada.per_round + self.redundant)

    async def collect(self, plan: Plan) -> Collected | None:
        """The group; None where its time was over before two attempts were."""
        clock = asyncio.get_running_loop().time
        until = None if self.deadline_sec is None else clock() + self.deadline_sec
        if self.ada is None:
            found = await self._first(plan, range(plan.first, plan.first + plan.reserved), plan.attempts, until)
        else:
            found = await self._rounds(plan, self.ada, until)
        if until is not None and clock() >= until and sum(each.reward is not None for each in found) < _ENOUGH:
            return None
        size = plan.attempts if self.ada is None else len(found)
        group = Collected(
            number=plan.number,
            task=plan.task,
            version=plan.version,
            size=size,
            attempts=tuple(sorted(found, key=lambda each: each.number)),
        )
        return group if self.ada is None else self._picked(group, self.ada)

    async def leave(self) -> None:
        """Wait until every cancelled attempt has ended."""
        await asyncio.gather(*self.leaving, return_exceptions=True)

    async def _rounds(self, plan: Plan, ada: AdaRule, until: float | None) -> list[Attempt]:
        pool: list[Attempt] = []
        width = ada.per_round + self.redundant
        for number in range(ada.rounds):
            first = plan.first + number * width
            pool += await self._first(plan, range(first, first + width), ada.per_round, until)
            late = until is not None and asyncio.get_running_loop().time() >= until
            if late or ada.left([each.reward for each in pool if each.reward is not None]):
                break
        return pool

    def _picked(self, group: Collected, ada: AdaRule) -> Collected:
        """The group with all but the kept attempts left out of training; without resolution nothing is kept."""
        valid = [each for each in group.attempts if each.reward is not None]
        rewards = group.rewards
        random = Random(f"{self.seed}/{group.number}")  # noqa: S311
        kept = set(ada.picked(rewards, random)) if ada.resolved(rewards) else set()
        left_out = tuple(each.trial for number, each in enumerate(valid) if number not in kept)
        return replace(group, left_out=left_out)

    async def _first(self, plan: Plan, numbers: Sequence[int], need: int, until: float | None) -> list[Attempt]:
        """The first `need` valid attempts; with fewer valid ones, failed ones as well, up to so many."""
        running = {
            asyncio.create_task(self.rollouts.attempt(plan.task, number, group=plan.name)): number for number in numbers
        }
        pending = set(running)
        valid: list[Attempt] = []
        failed: list[Attempt] = []
        why = "enough others of its group were faster"
        try:
            while pending and len(valid) < need:
                left = None if until is None else until - asyncio.get_running_loop().time()
                done, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    why = f"its group's time of {self.deadline_sec:g} s was over"
                    break
                for task in sorted(done, key=running.__getitem__):
                    attempt = task.result()
                    (failed if attempt.reward is None else valid).append(attempt)
        except asyncio.CancelledError as stop:
            why = str(stop) or "stopped by the operator"
            raise
        finally:
            for task in pending:
                task.cancel(why)
                self.leaving.add(task)
                task.add_done_callback(self._left)
        return [*valid[:need], *failed[: max(0, need - len(valid))]]

    def _left(self, task: asyncio.Task[Attempt]) -> None:
        self.leaving.discard(task)
        if not task.cancelled():
            task.exception()
