"""A served policy in the test's own process: the engine, and the application on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from harness.loopback import listen, serve
from trainer.policy.config import PolicyConfig
from trainer.policy.huggingface import HuggingFacePolicy
from trainer.policy.load import load_policy
from trainer.policy.tiny import save_tiny
from trainer.rollout.engine import Engine, Settings
from trainer.rollout.model import ServedModel
from trainer.rollout.sampling import Sampling
from trainer.rollout.sequence import Generation
from trainer.rollout.server import App

KEY = "sk-weights"
NO_END: frozenset[int] = frozenset()


def tiny(seed: int = 0) -> HuggingFacePolicy:
    """A fresh tiny model, on one thread."""
    torch.set_num_threads(1)
    policy = load_policy("tiny", PolicyConfig(device="cpu"), seed=seed)
    policy.model.eval()
    return policy


def checkpoint(folder: Path, seed: int) -> Path:
    """Other weights for it, on disk."""
    save_tiny(folder, seed=seed)
    return folder


@contextlib.contextmanager
def running(policy: HuggingFacePolicy, **settings: Any) -> Iterator[Engine]:
    """An engine at work."""
    engine = Engine(policy, "0", Settings(threads=1, **settings))
    try:
        yield engine
    finally:
        engine.close()


class Asked:
    """A generation that can be waited for."""

    def __init__(
        self, engine: Engine, prompt: Sequence[int], *, ends: frozenset[int] = NO_END, **sampling: Any
    ) -> None:
        self._ended = threading.Event()
        self.begun = threading.Event()
        self.generation = Generation.of(prompt, Sampling(**sampling), ends, self._end, self._follow)
        engine.submit(self.generation)

    def result(self, timeout: float = 60) -> Generation:
        """The generation, once it has ended."""
        assert self._ended.wait(timeout)
        return self.generation

    def _end(self, _: Generation) -> None:
        self._ended.set()

    def _follow(self, _: Generation) -> bool:
        self.begun.set()
        return False


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    url: str
    engine: Engine
    model: ServedModel


@contextlib.asynccontextmanager
async def serving_policy(
    policy: HuggingFacePolicy, *, request_timeout: float = 60, window: int | None = None, **settings: Any
) -> AsyncIterator[Served]:
    """A policy on loopback, its weights behind `KEY`."""
    with running(policy, **settings) as engine:
        model = ServedModel("tiny", policy, window=window)
        listener = listen("127.0.0.1", 0, who="the policy server")
        started, stop = asyncio.Event(), asyncio.Event()
        app = App(model, engine, key=KEY, request_timeout=request_timeout)
        task = asyncio.create_task(serve(app, listener, started, stop))
        await started.wait()
        try:
            yield Served(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", engine, model)
        finally:
            stop.set()
            await task
