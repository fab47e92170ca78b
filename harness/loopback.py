"""An ASGI application on an address of this machine: the model for agents, the policy, the pages."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

from harness.errors import UsageError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_BACKLOG = 2048
_CLOSING_SEC = 2.0


def listen(host: str, port: int, *, who: str) -> socket.socket:
    """A listening socket; `who` is told of in errors. Port 0 is any free one.

    Raises UsageError for what is no address of this machine, for every address at once, and where it is taken.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        raise UsageError(f"{who} listens on an address of this machine, e.g. 127.0.0.1, not on {host!r}") from error
    if address.is_unspecified:
        raise UsageError(f"{who} does not listen on every address ({host}): name the one that the sandboxes reach")
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    # asyncio sends small packets at once only on sockets that say they are TCP: an answer would wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise UsageError(f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}") from error
    return listener


async def serve(app: Any, listener: socket.socket, started: asyncio.Event, stop: asyncio.Event) -> None:
    """Serve until told to stop. Signals stay with the program, and nothing is logged but crashes."""
    import contextlib

    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started.set()

    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        backlog=_BACKLOG,
        timeout_graceful_shutdown=int(_CLOSING_SEC),
        timeout_keep_alive=75,
        server_header=False,
        date_header=False,
    )
    server = Server(config)

    async def told() -> None:
        await stop.wait()
        server.should_exit = True

    telling = asyncio.create_task(told())
    try:
        await server.serve(sockets=[listener])
    finally:
        telling.cancel()
        listener.close()


async def begin(app: Any, listener: socket.socket, stop: asyncio.Event) -> asyncio.Task[None]:
    """Serve until told to stop, and return once requests are answered. Raises what ended the serving before that."""
    started = asyncio.Event()
    serving = asyncio.create_task(serve(app, listener, started, stop))
    waiting = asyncio.create_task(started.wait())
    try:
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            await serving
    except BaseException:
        stop.set()
        await asyncio.gather(serving, return_exceptions=True)
        raise
    finally:
        waiting.cancel()
    return serving


async def told_to_end() -> None:
    """Wait for Ctrl-C, or for a polite kill."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, told.set)
    try:
        await told.wait()
    finally:
        remove: Callable[[int], Any] = loop.remove_signal_handler
        for number in numbers:
            remove(number)
