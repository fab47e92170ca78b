"""A loop from its request to its end: the parts are started in the order in which they need each other.

ledger -> trainer (every leased step done) -> server (its weights) -> agreement -> the job -> the pipeline
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from backends.protocol import SandboxProvider
from harness.agents.registry import agent_config
from harness.errors import UsageError
from harness.job.open import open_job
from harness.store.held import locked
from harness.task.dataset import load_dataset
from harness.task.model import Task
from harness.trial.events import Emit
from trainer.online.attempts import HarnessRollouts, HeldOut, job_config
from trainer.online.config import LoopConfig
from trainer.online.fingerprint import Fingerprint, of_scaffold
from trainer.online.folder import LoopFolder
from trainer.online.groups import Collector
from trainer.online.ledger import Ledger, State
from trainer.online.parts import Lease, Trained, Training
from trainer.online.pipeline import Pipeline
from trainer.online.process import training_process
from trainer.online.sampler import Sampler
from trainer.online.serving import policy_server, upstream

POLICY = "policy"
"""The model's name where it is served."""


class Server(Protocol):
    """What answers the agents' model calls, at `url`."""

    url: str

    async def publish(self, version: int, weights: Path) -> None:
        """See `Serving`."""


class Trainer(Training, Protocol):
    """Training with every leased step done: the newest weights, of version `step`, and what it was trained as."""

    step: int
    weights: Path
    fingerprint: Fingerprint

    async def finish(self, *, done: bool) -> None:
        """Leave a checkpoint, and the model where the last step is done."""


Serve = Callable[[int, Path], AbstractAsyncContextManager[Server]]
Train = Callable[[LoopFolder, Mapping[int, Lease]], AbstractAsyncContextManager[Trainer]]


@dataclass(slots=True, kw_only=True)
class Watching:
    """Whom a loop tells what happens: its steps, its evaluations, and the events of its trials."""

    step: Callable[[Trained], None] = lambda trained: None
    evaluation: Callable[[Mapping[str, Any]], None] = lambda document: None
    subscribers: Sequence[Emit] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a loop ended: its last step, why it had to stop before (None if not), and the shares of its time."""

    step: int
    halted: str | None
    shares: Mapping[str, float]
    state: State


async def run_loop(
    config: LoopConfig,
    root: Path,
    *,
    resume: bool = False,
    watching: Watching | None = None,
    provider: Callable[[], SandboxProvider | None] = lambda: None,
    serve: Serve | None = None,
    train: Train = training_process,
) -> Ended:
    """Run a loop in a folder of its own, or go on with the one that is there.

    `provider` makes the backend where it is not to be the configured one; `serve` and `train` start the policy's server
    and its trainer.

    Raises UsageError for what cannot be, before any attempt; Mismatch where sampling, training and serving differ;
    TrainerDied and ServerDied.
    """
    folder, watching = LoopFolder(root), watching or Watching()
    tasks = task_names(config.tasks.train)
    if config.tasks.held_out is not None:
        task_names(config.tasks.held_out)
    options = agent_options(config, "http://127.0.0.1/v1")
    described = agent_config(config.agent.name, config=config_file(config), options=options)
    if resume:
        folder.take_up(config)
    else:
        folder.create(config)
    try:
        with ExitStack() as stack:
            _hold(folder, stack)
            sampler = Sampler(tasks, config)
            ledger = stack.enter_context(Ledger(folder.ledger, sampler.hear))
            async with (
                train(folder, ledger.state.leases) as training,
                (serve or _server(config, folder))(training.step, training.weights) as server,
            ):
                folder.agree({"training": training.fingerprint, "the agent": of_scaffold(described)})
                options = agent_options(config, server.url)
                job = job_config(config, options, dataset=config.tasks.train)
                async with open_job(
                    job, folder.rollouts, subscribers=watching.subscribers, provider=provider()
                ) as opened:
                    pipeline = Pipeline(
                        config,
                        ledger,
                        sampler,
                        Collector(
                            rollouts=HarnessRollouts(opened),
                            redundant=config.collect.redundant,
                            deadline_sec=config.collect.deadline_sec,
                            ada=config.ada,
                            seed=config.seed,
                        ),
                        training,
                        server,
                        HeldOut(config, folder, options, told=watching.evaluation, provider=provider),
                        watching.step,
                    )
                    try:
                        halted = await pipeline.run()
                    finally:
                        await training.finish(done=pipeline.version >= config.steps)
                return Ended(step=pipeline.version, halted=halted, shares=pipeline.waits.shares(), state=pipeline.state)
    except UsageError:
        if not resume and not (folder.ledger.exists() and folder.ledger.stat().st_size):
            shutil.rmtree(root, ignore_errors=True)  # a request that cannot be leaves nothing behind
        raise


def task_names(dataset: str) -> list[str]:
    """The tasks of a dataset that can be run. Raises UsageError where there are none."""
    found = [task.name for task in load_dataset(dataset) if isinstance(task, Task)]
    if not found:
        raise UsageError(f"{dataset} holds no task that can be run: see harness tasks list {dataset}")
    return found


def config_file(config: LoopConfig) -> Path | None:
    """The agent's harness.toml."""
    return Path(config.agent.config_file) if config.agent.config_file else None


def agent_options(config: LoopConfig, url: str) -> dict[str, Any]:
    """The agent's settings with where the policy is served; an agent of the managed mode records what was sampled."""
    served = POLICY if config.serve.upstream is None else config.serve.upstream.model
    options = {"model": served, **config.agent.options, "base_url": url}
    kind = agent_config(config.agent.name, config=config_file(config), options=options)["type"]
    return {"capture": True, **options} if kind == "tool_calling" else options


def _hold(folder: LoopFolder, stack: ExitStack) -> None:
    try:
        stack.enter_context(locked(folder.root / ".loop"))
    except BlockingIOError:
        raise UsageError(f"{folder.root} is being worked on by another process") from None


def _server(config: LoopConfig, folder: LoopFolder) -> Serve:
    @asynccontextmanager
    async def serve(version: int, weights: Path) -> AsyncIterator[Server]:
        own = config.serve.upstream
        log = folder.root / "server.log"
        started: AbstractAsyncContextManager[Server] = (
            policy_server(config.serve, POLICY, log, version, weights)
            if own is None
            else upstream(own, version, weights)
        )
        async with started as server:
            yield server

    return serve
