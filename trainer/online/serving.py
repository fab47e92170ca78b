"""The policy server as a process of the loop's: started with the newest weights, and started again where it dies.

It comes back on the same address, so that agents whose calls it left unanswered ask it again.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from harness.errors import HarnessError
from trainer.online.config import ServeConfig, UpstreamConfig
from trainer.rollout.command import KEY_VARIABLE
from trainer.rollout.update import HarnessServer, ServerAddress, Sglang, UpdateFailed, Vllm, WeightUpdate

_MAIN = """
import sys, typer
from harness.errors import HarnessError
from trainer.rollout.command import serve
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(serve)
try:
    app()
except HarnessError as error:
    sys.exit(f"error: {error}")
"""
"""As `harness serve` begins, wherever the console script is."""
_START_SEC, _ENDING_SEC, _STOP_SEC = 300.0, 2.0, 10.0
_STARTS = 3
"""Starts without a publication in between: what kills the server that often will go on killing it."""


class ServerDied(HarnessError):
    """The policy server ended again and again."""


class PolicyServer:
    """See the module; made by `policy_server`."""

    def __init__(self, config: ServeConfig, name: str, log: Path) -> None:
        self._config, self._name, self._log = config, name, log
        self._key = secrets.token_hex(16)
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._newest: tuple[int, Path] = (0, Path())
        self._starts = 0
        self._up = asyncio.Event()
        self._trouble: Exception | None = None
        self.url = ""

    async def publish(self, version: int, weights: Path) -> None:
        """Sample from these weights from now on. Raises ServerDied."""
        self._newest, self._starts = (version, weights), 0
        while True:
            await self._up.wait()
            if self._trouble is not None:
                raise self._trouble
            process = self._process
            try:
                await HarnessServer(ServerAddress(url=self.url, key=self._key)).load(weights, str(version))
                return
            except UpdateFailed as error:
                if not await _ended(process):
                    raise ServerDied(f"the policy server took no new weights: {error}") from error
                if self._process is process and self._trouble is None:
                    self._up.clear()  # it is started again, with these weights

    async def start(self, version: int, weights: Path) -> None:
        """Raises ServerDied where it does not come up."""
        self._newest = (version, weights)
        await self._run()
        self._watch = asyncio.create_task(self._keep_up())

    async def stop(self) -> None:
        """End it."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), _STOP_SEC)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()

    async def _keep_up(self) -> None:
        assert self._process is not None
        while self._trouble is None:
            await self._process.wait()
            self._up.clear()
            try:
                await self._run()
            except ServerDied as error:
                self._trouble = error
                self._up.set()

    async def _run(self) -> None:
        self._starts += 1
        if self._starts > _STARTS:
            raise ServerDied(f"the policy server ended {_STARTS} times; the end of its own words: {self._log}")
        version, weights = self._newest
        port = self.url.rpartition(":")[2].partition("/")[0] or "0"
        options = ["--port", port, "--name", self._name, "--policy-version", str(version), *self._config.options()]
        try:
            with self._log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-c", _MAIN, str(weights), *options),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), KEY_VARIABLE: self._key},
                    start_new_session=True,  # Ctrl-C is the loop's to handle
                    preexec_fn=_die_with_parent,
                )
        except OSError as error:
            raise ServerDied(f"the policy server does not start: {error}") from error
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), _START_SEC)
        except TimeoutError:
            line = b""
        if not line.startswith(b"http://"):
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            raise ServerDied(f"the policy server does not start: {_last_line(self._log)}")
        self.url = line.decode().strip()
        self._up.set()


async def _ended(process: asyncio.subprocess.Process | None) -> bool:
    """Whether what refused an answer did so because it was ending."""
    if process is None:
        return True
    try:
        await asyncio.wait_for(process.wait(), _ENDING_SEC)
    except TimeoutError:
        return False
    return True


def _die_with_parent() -> None:
    """A loop that is killed leaves no server behind, which would hold its address and its memory."""
    import ctypes
    import signal

    pr_set_pdeathsig = 1
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return lines[-1] if lines else "it said nothing"


@asynccontextmanager
async def policy_server(
    config: ServeConfig, name: str, log: Path, version: int, weights: Path
) -> AsyncIterator[PolicyServer]:
    """The server with these weights. Raises ServerDied."""
    server = PolicyServer(config, name, log)
    try:
        await server.start(version, weights)
        yield server
    finally:
        await server.stop()


class Upstream:
    """A server that somebody else keeps up, which reads weights from a disk that it shares with the loop."""

    def __init__(self, config: UpstreamConfig) -> None:
        self.url = config.url
        key = os.environ.get(config.key_env, "") if config.key_env else ""
        address = ServerAddress(url=config.url, key=key)
        self._update: WeightUpdate = (
            Vllm(address, on_update=config.on_update)
            if config.engine == "vllm"
            else Sglang(address, on_update=config.on_update)
            if config.engine == "sglang"
            else HarnessServer(address)
        )

    async def publish(self, version: int, weights: Path) -> None:
        """Sample from these weights from now on. Raises ServerDied."""
        try:
            await self._update.load(weights, str(version))
        except UpdateFailed as error:
            raise ServerDied(f"the policy server took no new weights: {error}") from error


@asynccontextmanager
async def upstream(config: UpstreamConfig, version: int, weights: Path) -> AsyncIterator[Upstream]:
    """Somebody else's server, with these weights. Raises ServerDied."""
    server = Upstream(config)
    await server.publish(version, weights)
    yield server
