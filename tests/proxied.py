"""A trial's lease on a running proxy, and what it left on record: what tests of the proxy start from."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from harness.atif.model import Trajectory
from harness.atif.reader import load_trajectory
from harness.atif.writer import TrajectoryWriter
from harness.llm.openai_chat import Endpoint
from harness.llm.retry import RetryPolicy
from harness.proxy import Budget, Lease, ModelProxy
from harness.redaction import Redactor
from harness.store.rollout import RolloutReader, RolloutWriter, SampledCall

UPSTREAM_KEY = "upstream-key-0123456789"


def plain_client() -> httpx.AsyncClient:
    """A client that speaks no TLS, which takes long to prepare."""
    return httpx.AsyncClient(verify=False)


def endpoint(url: str, **fields: Any) -> Endpoint:
    """An endpoint that is asked again at once."""
    retry = RetryPolicy(max_retries=2, base_sec=0.001, cap_sec=0.001)
    return Endpoint(**{"model": "m", "base_url": url, "api_key": UPSTREAM_KEY, "retry": retry, **fields})


@dataclass
class Trial:
    """One trial: its lease, and its files."""

    lease: Lease
    folder: Path
    trajectory: TrajectoryWriter
    rollout: RolloutWriter

    async def close(self) -> None:
        """End the lease, then its records."""
        await self.lease.close()
        self.trajectory.close()
        self.rollout.close()

    async def end(self) -> Trajectory:
        """Close everything, and read the trajectory."""
        await self.close()
        return load_trajectory(self.trajectory.path)

    def calls(self) -> list[SampledCall]:
        """The sampled calls on record."""
        return list(RolloutReader(self.rollout.path)) if self.rollout.path.exists() else []


def trial(proxy: ModelProxy, folder: Path, *, budget: Budget | None = None, secrets: tuple[str, ...] = ()) -> Trial:
    """A trial of the task "hello"."""
    trajectory = TrajectoryWriter(
        folder / "trajectory.json",
        session_id="job/hello__1",
        agent_name="cli",
        agent_version="1",
        model_name=proxy.model,
        redact=Redactor(secrets),
    )
    rollout = RolloutWriter(folder / "rollout.bin")
    lease = proxy.open(task_name="hello", trajectory=trajectory, rollout=rollout, budget=budget)
    return Trial(lease, folder, trajectory, rollout)


@contextlib.asynccontextmanager
async def proxied(upstream: Any, folder: Path, *, budget: Budget | None = None, **options: Any) -> AsyncIterator[Trial]:
    """A proxy with one trial, whose files are whole at the end."""
    async with ModelProxy(upstream, **options) as proxy:
        made = trial(proxy, folder, budget=budget)
        try:
            yield made
        finally:
            await made.close()
