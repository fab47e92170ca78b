"""A whole loop on real trials, without a model worth the name: sandboxes in memory, and answers that a table gives.

The same attempt always says the same and earns the same, so that two loops can be compared to the bit.

    python loop_world.py FOLDER      goes on with the loop in FOLDER until its end, or until it is killed
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from builders import MemoryProvider, MemorySandbox, make_task
from model_server import Answer, serving
from policy_server import Policy

from backends.lifecycle import TRIAL
from trainer.online.config import LoopConfig, parse_loop
from trainer.online.folder import LoopFolder
from trainer.online.loop import Ended, Server, Watching, run_loop
from trainer.online.parts import Lease, Trained
from trainer.online.worker import Worker
from trainer.policy.tiny import save_tiny


def earns(sandbox: MemorySandbox) -> Mapping[str, bytes]:
    """Attempts with an even number succeed."""
    number = int(re.findall(r"__(\d+)", sandbox.spec.labels[TRIAL])[0])
    return {"reward.txt": f"{int(number % 2 == 0)}\n".encode()}


class Scripted:
    """The policy's server: every conversation gets the same answer, under the version that was published last."""

    def __init__(self, url: str, policy: Policy) -> None:
        self.url, self._policy = url, policy

    async def publish(self, version: int, weights: Path) -> None:
        assert (weights / "model.safetensors").is_file()
        self._policy.version = str(version)


def scripted(**policy: Any) -> Callable[[int, Path], Any]:
    """`run_loop`'s server."""

    @asynccontextmanager
    async def serve(version: int, weights: Path) -> AsyncIterator[Server]:
        served = Policy([("all done", ())], **{"version": str(version), **policy})

        def answer(request: Mapping[str, Any]) -> Answer:
            del served.sampled[:]
            return served(request)

        async with serving(answer) as endpoint:
            yield Scripted(endpoint.url, served)

    return serve


class InProcess:
    """The trainer's worker in a thread of the test's own process: importing torch again takes seconds."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.fingerprint = worker.fingerprint()
        self.weights = worker.publish()

    @property
    def step(self) -> int:
        return self._worker.step

    async def train(self, lease: Lease, loop: Mapping[str, float]) -> Trained:
        answer = await asyncio.to_thread(self._worker.train, lease, loop)
        self.weights = Path(answer["weights"])
        return Trained(step=lease.step, weights=self.weights, metrics=answer["metrics"], halt=answer["halt"])

    async def finish(self, *, done: bool) -> None:
        self._worker.finish(done=done)


@asynccontextmanager
async def in_process(folder: LoopFolder, leases: Mapping[int, Lease]) -> AsyncIterator[InProcess]:
    """`run_loop`'s trainer."""
    training = InProcess(Worker(folder))
    for step in range(training.step + 1, max(leases, default=0) + 1):
        await training.train(leases[step], {})
    yield training


def world(folder: Path, **fields: Any) -> LoopConfig:
    """Tasks, a model, and a loop's request over them."""
    for number in range(4):
        make_task(folder / "tasks", f"t{number}", instruction=f"Do {number}.")
    make_task(folder / "held", "h0")
    if not (folder / "model").exists():
        save_tiny(folder / "model", width=16, heads=2)
    options = {"text_is_final": True, "system_prompt": "Act.", "parameters": {"temperature": 1.0}}
    tables: dict[str, Any] = {
        "model": str(folder / "model"),
        "steps": 6,
        "tasks": {"train": str(folder / "tasks"), "held_out": str(folder / "held")},
        "agent": {"options": options},
        "collect": {"groups": 2, "attempts": 4},
        "budget": {"rest": 0},
        "evaluate": {"every": 3},
        "train": {"checkpoint_every": 2, "optimizer": {"lr": 1e-3, "warmup_steps": 0}},
    }
    return parse_loop({**tables, **fields}, "loop.toml")


async def run(config: LoopConfig, root: Path, *, resume: bool = False, **more: Any) -> Ended:
    """A loop to its end."""
    given: dict[str, Any] = {
        "provider": lambda: MemoryProvider(verdict=earns),
        "serve": scripted(),
        "train": in_process,
        **more,
    }
    return await run_loop(config, root, resume=resume, watching=given.pop("watching", Watching()), **given)


def main(root: Path) -> None:
    """Begin or go on."""
    config = world(root.parent)
    asyncio.run(run(config, root, resume=(root / "loop.json").exists()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
