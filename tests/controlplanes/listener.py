"""An aiohttp application on a port of 127.0.0.1 that the system chooses."""

from __future__ import annotations

import asyncio

from aiohttp import web


async def listen(app: web.Application, *, shutdown_sec: float) -> tuple[web.AppRunner, str]:
    """Start it; what `end` takes, and its URL."""
    runner = web.AppRunner(app, shutdown_timeout=shutdown_sec)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    host, port = runner.addresses[0][:2]
    return runner, f"http://{host}:{port}"


async def end(runner: web.AppRunner) -> None:
    """Stop it, with the connections that were accepted while it stopped: nobody else would ever close those."""
    server = runner.server
    await runner.cleanup()
    await asyncio.sleep(0)
    if server is not None:
        await server.shutdown(0)
