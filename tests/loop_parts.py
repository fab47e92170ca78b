"""A loop's parts, simulated: attempts that take as long as a test says, and training and serving that remember."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from trainer.online.config import LoopConfig, parse_loop
from trainer.online.groups import Collector
from trainer.online.ledger import Ledger
from trainer.online.parts import Attempt, Lease, Trained
from trainer.online.pipeline import Pipeline
from trainer.online.sampler import Sampler


def loop_config(**fields: Any) -> LoopConfig:
    """A request with the least that it needs."""
    tables: dict[str, Any] = {"model": "tiny", "steps": 4, "tasks": {"train": "tasks"}, **fields}
    tables["budget"] = {"rest": 0, **tables.get("budget", {})}
    return parse_loop(tables, "loop.toml")


@dataclass
class Simulated:
    """Attempts on a number of slots, each taking `seconds(task, number)`; infinity is one that hangs.

    `ended` are those that came to their end, in order; `cancelled` tells why the others did not.
    """

    seconds: Callable[[str, int], float] = lambda task, number: 0.0
    reward: Callable[[str, int], float | None] = lambda task, number: float(number % 2)
    slots: int = 64
    busy: float = 0.0
    asked: list[tuple[str, int]] = field(default_factory=list)
    ended: list[tuple[str, int]] = field(default_factory=list)
    cancelled: dict[tuple[str, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.slots)

    async def attempt(self, task: str, number: int, *, group: str) -> Attempt:
        self.asked.append((task, number))
        try:
            async with self._slots:
                seconds = self.seconds(task, number)
                with self._counted():
                    await asyncio.sleep(min(seconds, 3600))
        except asyncio.CancelledError as stop:
            self.cancelled[task, number] = str(stop)
            raise
        self.ended.append((task, number))
        return Attempt(number=number, trial=f"{task}__{number}", reward=self.reward(task, number))

    async def room(self) -> None:
        async with self._slots:
            pass

    @contextmanager
    def _counted(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        finally:
            self.busy += loop.time() - began


@dataclass
class Trainer:
    """Training that takes a time and remembers what it trained; and serving that remembers what it was given."""

    seconds: float = 0.0
    leases: list[Lease] = field(default_factory=list)
    numbers: list[Mapping[str, float]] = field(default_factory=list)
    published: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    async def train(self, lease: Lease, loop: Mapping[str, float]) -> Trained:
        await asyncio.sleep(self.seconds)
        self.leases.append(lease)
        self.numbers.append(loop)
        return Trained(step=lease.step, weights=Path(f"weights/{lease.step}"), metrics={})

    async def publish(self, version: int, weights: Path) -> None:
        self.published.append(version)
        self.times.append(asyncio.get_running_loop().time())

    @property
    def staleness(self) -> list[int]:
        """Of every group that was trained."""
        return [lease.step - 1 - group.version for lease in self.leases for group in lease.groups]

    @property
    def trained(self) -> list[int]:
        """The numbers of the groups that were trained."""
        return [group.number for lease in self.leases for group in lease.groups]


@contextmanager
def pipeline(
    folder: Path, rollouts: Simulated, trainer: Trainer, config: LoopConfig, *, tasks: int = 5, **more: Any
) -> Iterator[Pipeline]:
    """A loop over these parts, with its ledger in `folder`."""
    sampler = Sampler([f"t{number}" for number in range(tasks)], config)
    collector = Collector(
        rollouts=rollouts,
        redundant=config.collect.redundant,
        deadline_sec=config.collect.deadline_sec,
        ada=config.ada,
        seed=config.seed,
    )
    with Ledger(folder / "ledger.jsonl", listener(sampler)) as ledger:
        yield Pipeline(config, ledger, sampler, collector, trainer, trainer, **more)


def listener(sampler: Sampler) -> Callable[[str, Any], None]:
    """What a ledger tells a sampler when it is read again."""

    def hear(kind: str, value: Any) -> None:
        if kind == "planned":
            sampler.next_wave()
        else:
            sampler.update(value)

    return hear


def pareto(seed: int, *, shape: float = 1.2, least: float = 0.01, most: float = 1.0) -> Callable[[str, int], float]:
    """Delays with a long tail, the same for the same attempt: least at the least, cut off at the most."""

    def seconds(task: str, number: int) -> float:
        return min(most, least * Random(f"{seed}/{task}/{number}").paretovariate(shape))

    return seconds
