"""The proxy as a service of one run: it listens, opens leases, and ends with all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from harness.atif.writer import TrajectoryWriter
from harness.llm.openai_chat import Endpoint
from harness.llm.protocol import ChatModel
from harness.proxy.budget import Budget
from harness.proxy.lease import Lease
from harness.proxy.upstream.protocol import Upstream
from harness.store.rollout import RolloutWriter


class ModelProxy:
    """One per run; an asynchronous context manager.

    Attributes:
        address: (host, port) that it listens on, once entered.
    """

    def __init__(
        self,
        upstream: Endpoint | ChatModel | Sequence[tuple[Endpoint, float]],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        allowed_hosts: Sequence[str] = (),
        record: Path | None = None,
        replay: Path | None = None,
    ) -> None:
        """`upstream` is one endpoint, a chat model in this process, or several endpoints with their weights.

        `host` is an address of this machine: loopback, or a container engine's bridge; `allowed_hosts` are further names
        that requests may call it by. `record` and `replay` name a file of exchanges, see `harness.proxy.tape`.

        Raises UsageError when the extra is missing or the address cannot be listened on (on entering).
        """

    def open(
        self,
        *,
        task_name: str,
        trajectory: TrajectoryWriter,
        rollout: RolloutWriter,
        step: str | None = None,
        seed: int = 0,
        budget: Budget = Budget(),
    ) -> Lease:
        """Give one trial access to the model. What is written of it is redacted as the trajectory's writer is told to."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(self, *exc: object) -> None:
        raise NotImplementedError
