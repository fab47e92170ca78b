"""Waiting until a descriptor has something to read, or has ended; of a pidfd, until its process has."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Iterator
from contextlib import contextmanager


def ready(fd: int, seconds: float) -> bool:
    """Block until then, at most so long; whether it is. Unlike select, for descriptors of any number."""
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


@contextmanager
def readable(fd: int) -> Iterator[asyncio.Future[None]]:
    """A future that is done then."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, _settle, future)
    try:
        yield future
    finally:
        loop.remove_reader(fd)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
