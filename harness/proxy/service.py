"""The proxy as a service of one run: it listens, opens leases, and ends with all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

from harness.atif.writer import TrajectoryWriter
from harness.errors import UsageError
from harness.llm.openai_chat import Endpoint
from harness.llm.protocol import ChatModel
from harness.loopback import LOOPBACK, begin, listen
from harness.proxy.budget import Account, Budget
from harness.proxy.lease import Lease, Trial
from harness.proxy.recorder import Recorder
from harness.proxy.tape import RecordingUpstream, ReplayUpstream
from harness.proxy.upstream.http import HttpUpstream
from harness.proxy.upstream.model import ModelUpstream
from harness.proxy.upstream.protocol import Upstream
from harness.redaction import Redactor
from harness.store.rollout import RolloutWriter

if TYPE_CHECKING:
    from harness.proxy.app import App

Source = Endpoint | ChatModel | Sequence[tuple[Endpoint, float]]


def require_packages(who: str) -> None:
    """Raise UsageError where what the proxy needs is not installed; `who` is what needs the proxy."""
    missing = [name for name in ("aiohttp", "starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise UsageError(f"{who} needs {', '.join(missing)}: pip install 'harness-rl[proxy]'")


class ModelProxy:
    """One per run; an asynchronous context manager.

    Attributes:
        address: (host, port) that it listens on, once entered.
    """

    def __init__(
        self,
        upstream: Source | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        allowed_hosts: Sequence[str] = (),
        record: Path | None = None,
        replay: Path | None = None,
    ) -> None:
        """`upstream` is one endpoint, a chat model in this process, or several endpoints with their weights.

        `host` is an address of this machine: loopback, or a container engine's bridge; `allowed_hosts` are further
        names that requests may call it by. `record` and `replay` name a file of exchanges, see `harness.proxy.tape`.

        With `replay` there need be no upstream.

        Raises UsageError for contradictions, for a tape that cannot be read or written, and, on entering, when the
        extra is missing or the address cannot be listened on.
        """
        self.address = (host, port)
        self._hosts = frozenset(name.lower() for name in (host, *allowed_hosts, *LOOPBACK))
        self._leases: dict[str, Lease] = {}
        self._upstream = _upstream(upstream, record, replay)
        self._app: App | None = None
        self._server: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    @property
    def model(self) -> str:
        """The model's name in records."""
        return self._upstream.name

    def open(
        self,
        *,
        task_name: str,
        trajectory: TrajectoryWriter,
        rollout: RolloutWriter,
        step: str | None = None,
        seed: int = 0,
        budget: Budget | None = None,
    ) -> Lease:
        """Give one trial access to the model. What is written of it is redacted by the trajectory's writer."""
        host, port = self.address
        address = f"[{host}]" if ":" in host else host
        lease = Lease(
            Trial(task_name=task_name, step=step, seed=seed),
            f"http://{address}:{port}",
            Account(budget or Budget(), time.monotonic),
            Recorder(trajectory, rollout),
            self._forget,
            app=self._app,
        )
        self._leases[lease.name] = lease
        return lease

    def _forget(self, lease: Lease) -> None:
        self._leases.pop(lease.name, None)

    async def __aenter__(self) -> Self:
        try:
            return await self._start()
        except BaseException:
            await self._upstream.close()
            raise

    async def _start(self) -> Self:
        require_packages("the model proxy")
        from harness.proxy.app import App

        listener = listen(*self.address, who="the proxy")
        self.address = (self.address[0], listener.getsockname()[1])
        self._app = App(self._leases.get, self._upstream, self._hosts)
        self._server = await begin(self._app, listener, self._stop)
        return self

    async def __aexit__(self, *exc: object) -> None:
        for lease in list(self._leases.values()):
            await lease.close()
        self._stop.set()
        if self._server is not None:
            await self._server
        await self._upstream.close()


def _upstream(source: Source | None, record: Path | None, replay: Path | None) -> Upstream:
    if replay is not None:
        if record is not None:
            raise UsageError("an exchange is recorded or replayed, not both")
        return ReplayUpstream(replay)
    if source is None:
        raise UsageError("the model proxy needs an upstream, or a recorded file to replay")
    keys: list[str] = []
    upstream: Upstream
    if isinstance(source, Endpoint):
        keys, upstream = [source.api_key], HttpUpstream([(source, 1.0)])
    elif isinstance(source, Sequence):
        if not source or any(weight <= 0 for _, weight in source):
            raise UsageError("the model proxy needs at least one upstream, and weights above 0")
        keys, upstream = [endpoint.api_key for endpoint, _ in source], HttpUpstream(source)
    else:
        upstream = ModelUpstream(source)
    return upstream if record is None else RecordingUpstream(upstream, record, Redactor(keys))
