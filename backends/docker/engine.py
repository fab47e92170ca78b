"""The engine: where it is, one connection pool to it, and its API calls, each with a deadline and typed errors."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import IO, Any

import aiodocker
import aiohttp

from backends.docker.errors import NAME, UNREACHABLE, from_status, translate
from backends.errors import SandboxError, SandboxUnsupported
from backends.frame import Request

CALL_TIMEOUT_SEC = 30.0
"""Deadline of a plain API call."""

DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
_CHUNK = 256 << 10


def address(host: str | None = None) -> str:
    """The engine's address: `host`, else DOCKER_HOST, else the current docker context, else the usual socket."""
    if host is None and "DOCKER_CONTEXT" not in os.environ:
        host = os.environ.get("DOCKER_HOST") or None
    if host is None:
        host = _context_address() or DEFAULT_ADDRESS
    scheme, separator, rest = host.partition("://")
    if not separator or scheme not in ("unix", "tcp", "http", "https") or not rest:
        raise SandboxUnsupported(
            f"cannot talk to a Docker engine at {host!r}; set DOCKER_HOST to unix:///path or tcp://host:port",
            backend=NAME,
            operation="connect",
        )
    return host


def _context_address() -> str | None:
    from docker.context import ContextAPI
    from docker.errors import DockerException

    name = os.environ.get("DOCKER_CONTEXT")
    try:
        context = ContextAPI.get_context(name)
    except (DockerException, OSError, ValueError, LookupError) as error:
        raise SandboxUnsupported(
            f"the docker context cannot be read: {error}; run `docker context use default`", backend=NAME
        ) from error
    if context is None:
        raise SandboxUnsupported(f"no docker context is called {name!r}; see `docker context ls`", backend=NAME)
    found = str(context.Host or "").replace("http+unix://", "unix://")
    return found or None


class Engine:
    """A client of one engine. The pool is unlimited: the exec that kills must never queue behind those that hang."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connector: aiohttp.BaseConnector | None = None
        self._client: aiodocker.Docker | None = None

    @property
    def client(self) -> aiodocker.Docker:
        """The API client, made at first use inside the running loop."""
        if self._client is None:
            if self.url.startswith("unix://"):
                self._connector = aiohttp.UnixConnector(self.url.removeprefix("unix://"), limit=0)
                self._client = aiodocker.Docker(url="unix://localhost", connector=self._connector)
            elif os.environ.get("DOCKER_TLS_VERIFY"):
                self._client = aiodocker.Docker(url=self.url)
            else:
                self._connector = aiohttp.TCPConnector(limit=0)
                self._client = aiodocker.Docker(url=self.url.replace("tcp://", "http://"), connector=self._connector)
        return self._client

    async def close(self) -> None:
        """Close the client and the pool. A later call opens new ones."""
        client, self._client = self._client, None
        connector, self._connector = self._connector, None
        if client is not None:
            await client.close()
        if connector is not None:
            await connector.close()

    @asynccontextmanager
    async def call(
        self, operation: str, *, timeout: float = CALL_TIMEOUT_SEC, sandbox_id: str | None = None
    ) -> AsyncIterator[aiodocker.Docker]:
        """A block of API calls with one deadline, whose trouble leaves as SandboxError."""
        try:
            async with asyncio.timeout(timeout):
                yield self.client
        except (aiodocker.DockerError, aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._translated(error, operation, sandbox_id) from error

    def _translated(self, error: Exception, operation: str, sandbox_id: str | None) -> SandboxError:
        # The client names the stand-in host of the URL; people need the socket.
        if isinstance(error, aiodocker.DockerError) and error.status == UNREACHABLE:
            return from_status(
                UNREACHABLE, f"no engine answers at {self.url}", operation=operation, sandbox_id=sandbox_id
            )
        return translate(error, operation=operation, sandbox_id=sandbox_id)

    async def exec(
        self, container_id: str, request: Request, *, user: str = "", source: IO[bytes] | None = None
    ) -> tuple[bytes, Any]:
        """Run a framed request in a container; its reply, and the exec, which can be inspected.

        `source` replaces the request's stdin. Has no deadline of its own beyond that of starting: the caller's.
        """
        async with self.call("execute", sandbox_id=container_id) as client:
            run = await client.containers.container(container_id).exec(
                list(request.argv),
                stdin=bool(request.stdin) or source is not None,
                environment=dict(request.env),
                user=user,
                workdir="/",
            )
        feeder: asyncio.Task[None] | None = None
        attached = run.start(detach=False)
        try:
            async with attached as stream:
                if source is not None or request.stdin:
                    feeder = asyncio.create_task(_feed(stream, request.stdin if source is None else source))
                return await _collect(stream, request.limit, container_id), run
        except (aiodocker.DockerError, aiohttp.ClientError, OSError) as error:
            raise self._translated(error, "execute", container_id) from error
        finally:
            with suppress(AssertionError):  # entering may have been cancelled after the connection was made
                await attached.close()
            if feeder is not None:
                feeder.cancel()
                await asyncio.gather(feeder, return_exceptions=True)


async def _feed(stream: Any, source: bytes | IO[bytes]) -> None:
    """Write stdin. A command may end without reading it all; then the connection ends and so does this."""
    with suppress(OSError, RuntimeError, aiohttp.ClientError, AssertionError):
        if isinstance(source, bytes):
            for start in range(0, len(source), _CHUNK):
                await stream.write_in(source[start : start + _CHUNK])
        else:
            while chunk := source.read(_CHUNK):
                await stream.write_in(chunk)


async def _collect(stream: Any, limit: int, container_id: str) -> bytes:
    """All that the exec writes. stderr carries the engine's and the wrapper's own complaints only."""
    reply = bytearray()
    complaints = bytearray()
    while (message := await stream.read_out()) is not None:
        target = reply if message.stream == 1 else complaints
        target += message.data
        if len(reply) > limit:
            raise SandboxError(
                "the sandbox sent more than the command may return",
                backend=NAME,
                operation="execute",
                sandbox_id=container_id,
            )
        del complaints[4096:]
    return bytes(reply or complaints)
