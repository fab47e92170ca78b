"""The viewer's server: on loopback, with a key of its own, until it is told to end."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections.abc import Callable

from evals.view.app import application
from evals.view.site import Site
from harness.loopback import begin, listen, told_to_end

HOST = "127.0.0.1"


def open_port(port: int) -> socket.socket:
    """A socket on loopback. Raises UsageError where it cannot be had."""
    return listen(HOST, port, who="harness view")


def run(site: Site, listener: socket.socket, path: str, greet: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; `greet` is given the address, with the key, once requests are answered."""
    asyncio.run(_run(site, listener, path, greet))


async def _run(site: Site, listener: socket.socket, path: str, greet: Callable[[str], None]) -> None:
    token, port = secrets.token_urlsafe(24), listener.getsockname()[1]
    stop = asyncio.Event()
    serving = await begin(application(site, token, port, stop), listener, stop)
    site.index.start()
    threading.Thread(target=site.figures.warm_up, daemon=True).start()
    try:
        greet(f"http://{HOST}:{port}{path}?token={token}")
        await told_to_end()
    finally:
        stop.set()
        await serving
        site.index.close()
