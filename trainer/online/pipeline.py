"""Collecting and training side by side, each at its own speed, within the bounds that keep them together.

    plan -> collect (N groups at a time) -> windowed FIFO -> lease of P groups -> train -> publish -> next version

A group counts among the N until the step that trains it is published, so that no group is begun that would be too old
when its turn comes. With N = P (async_ratio 0) a step's groups are all sampled from the newest weights; with N = 2 P a
step's groups are collected while those of the step before are trained; and so on. What grows older than `async_ratio`
versions all the same, because the window let others overtake it, is dropped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from trainer.online.config import LoopConfig
from trainer.online.groups import Collector
from trainer.online.ledger import Ledger, State
from trainer.online.parts import Collected, Evaluation, Plan, Serving, Trained, Training
from trainer.online.sampler import Sampler
from trainer.online.waits import Waits
from trainer.schedule.window import WindowedFifo

OnStep = Callable[[Trained], None]


class Pipeline:
    """One loop from its present state to its last step."""

    def __init__(
        self,
        config: LoopConfig,
        ledger: Ledger,
        sampler: Sampler,
        collector: Collector,
        training: Training,
        serving: Serving,
        evaluation: Evaluation | None = None,
        on_step: OnStep = lambda trained: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The newest lease of the ledger is already trained and published."""
        self._config, self._ledger, self._sampler, self._collector = config, ledger, sampler, collector
        self._training, self._serving, self._evaluation, self._on_step = training, serving, evaluation, on_step
        self._fifo: WindowedFifo[Collected] = WindowedFifo(config.collect.window_groups)
        self._groups: dict[int, asyncio.Task[None]] = {}
        self._held = 0
        self._lost_before = 0
        self._room, self._more = asyncio.Event(), asyncio.Event()
        self.version = ledger.state.step
        self.waits = Waits(clock)

    @property
    def state(self) -> State:
        """Where the loop stands."""
        return self._ledger.state

    async def run(self) -> str | None:
        """Go on until the last step is done; why it had to stop before, if it had to."""
        failure: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        parts = [asyncio.create_task(self._train()), asyncio.create_task(self._collect(failure))]
        try:
            self._take_up(failure)
            await asyncio.wait({*parts, failure}, return_when=asyncio.FIRST_COMPLETED)
            ended = failure if failure.done() else next(part for part in parts if part.done())
            return ended.result()
        finally:
            failure.cancel()
            groups = list(self._groups.values())
            for task in (*parts, *groups):
                task.cancel("the loop has ended")
            await asyncio.gather(*parts, *groups, return_exceptions=True)
            await self._collector.leave()

    def _take_up(self, failure: asyncio.Future[str | None]) -> None:
        """Stand where the ledger stands; groups that had begun go on with the attempts that they still owe."""
        state = self._ledger.state
        for number in range(state.started):
            self._fifo.start()
            if number in state.ready:
                self._fifo.finish(number, state.ready[number])
            elif number not in state.open:
                self._fifo.give_up(number)
        self._drop_stale()
        for plan in state.open.values():
            self._begin(plan, failure)
        self._more.set()

    async def _train(self) -> str | None:
        collect, every = self._config.collect, self._config.evaluate.every
        if self.version % every == 0:
            await self._evaluate()
        while self.version < self._config.steps:
            with self.waits.on("starved"):
                batch = await self._batch(collect.groups)
            lease = self._ledger.leased(self.version + 1, sorted(batch))
            with self.waits.on("training"):
                trained = await self._training.train(lease, self._numbers())
            with self.waits.on("publishing"):
                await self._serving.publish(trained.step, trained.weights)
            self._advance(trained.step)
            self._on_step(trained)
            if trained.halt is not None:
                return trained.halt
            if self.version % every == 0 or self.version == self._config.steps:
                await self._evaluate()
        return None

    async def _batch(self, count: int) -> list[int]:
        """The numbers of the next groups, in the order in which the window hands them out."""
        numbers: list[int] = []
        while len(numbers) < count:
            taken = self._fifo.take()
            if taken is not None:
                numbers.append(taken[0])
                self._held += 1
                continue
            self._more.clear()
            await self._more.wait()
        return numbers

    def _advance(self, version: int) -> None:
        """A new version: its groups' places are free, and what is too old for it now will not be trained."""
        self.version = version
        self._held = 0
        self._drop_stale()
        self._room.set()

    def _drop_stale(self) -> None:
        state, oldest = self._ledger.state, self.version - self._config.collect.async_ratio
        held: list[Plan | Collected] = [*state.open.values(), *state.ready.values()]
        for each in held:
            if each.version < oldest:
                self._lose(each.number, "stale")

    def _lose(self, number: int, why: str) -> None:
        self._ledger.lost(number, why)
        self._fifo.give_up(number)
        if number in self._groups:
            self._groups.pop(number).cancel(f"its group was given up: {why}")
        self._room.set()
        self._more.set()

    async def _collect(self, failure: asyncio.Future[str | None]) -> str | None:
        while True:
            while self._fifo.unconsumed + self._held >= self._wanted:
                self._room.clear()
                await self._room.wait()
            await self._collector.rollouts.room()
            self._begin(self._start(), failure)

    @property
    def _wanted(self) -> int:
        """Groups at a time; towards the end no more than what is still to be trained."""
        collect = self._config.collect
        return min(collect.in_flight, (self._config.steps - self.version) * collect.groups)

    def _start(self) -> Plan:
        ledger = self._ledger
        if not ledger.state.planned:
            ledger.planned(self._sampler.next_wave())
        task, attempts = ledger.state.planned[0]
        plan = Plan(
            number=self._fifo.start(),
            task=task,
            attempts=attempts,
            first=ledger.state.attempts[task] + 1,
            reserved=self._collector.reserved(attempts),
            version=self.version,
        )
        ledger.started(plan)
        return plan

    def _begin(self, plan: Plan, failure: asyncio.Future[str | None]) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            self._groups.pop(plan.number, None)
            if not self._groups:
                self.waits.begin("idle")
            if not task.cancelled() and (error := task.exception()) is not None and not failure.done():
                failure.set_exception(error)

        self.waits.end("idle")
        work: Coroutine[Any, Any, None] = self._collected(plan)
        self._groups[plan.number] = asyncio.create_task(work)
        self._groups[plan.number].add_done_callback(ended)

    async def _collected(self, plan: Plan) -> None:
        group = await self._collector.collect(plan)
        if plan.number not in self._ledger.state.open:  # given up in this very moment
            return
        if group is None:
            self._groups.pop(plan.number, None)
            self._lose(plan.number, "expired")
            return
        self._ledger.finished(group)
        self._sampler.update(group)
        self._fifo.finish(plan.number, group)
        self._more.set()

    async def _evaluate(self) -> None:
        if self._evaluation is not None:
            with self.waits.on("evaluating"):
                await self._evaluation.measure(self.version)

    def _numbers(self) -> dict[str, float]:
        """Of the loop itself, to be logged with the step's."""
        lost = self._ledger.state.lost.total()
        new, self._lost_before = lost - self._lost_before, lost
        return {**self.waits.taken(), "groups_in_flight": self._fifo.unconsumed, "groups_lost": new}
