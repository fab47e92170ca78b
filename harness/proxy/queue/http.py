"""Requests and responses as the bytes that travel through the queue, and the application that lies between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.proxy.app import App


class Malformed(Exception):
    """What came out of the sandbox is no HTTP request."""


def parse(data: bytes) -> tuple[dict[str, Any], bytes]:
    """A request as an ASGI scope, and its body. Raises Malformed."""
    import h11

    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 17)
    try:
        connection.receive_data(data)
        request = connection.next_event()
        body: list[bytes] = []
        while isinstance(event := connection.next_event(), h11.Data):
            body.append(bytes(event.data))
    except h11.RemoteProtocolError as error:
        raise Malformed(str(error)) from error
    if not isinstance(request, h11.Request) or not isinstance(event, h11.EndOfMessage):
        raise Malformed("the request is cut")
    target = request.target.decode("ascii", "replace")
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": request.method.decode("ascii", "replace"),
        "path": path,
        "query_string": query.encode(),
        "headers": [(bytes(name), bytes(value)) for name, value in request.headers],
    }
    return scope, b"".join(body)


async def respond(app: App, data: bytes) -> AsyncIterator[tuple[bytes, bool]]:
    """The response's bytes as they come, put together while the reader is busy; with the last of them comes True."""
    try:
        scope, body = parse(data)
    except Malformed:
        yield _head(400, [(b"content-length", b"0")]), True
        return
    exchange = _Exchange(body)
    work = asyncio.create_task(app(scope, exchange.receive, exchange.send))
    work.add_done_callback(exchange.end)
    try:
        while True:
            await exchange.news.wait()
            exchange.news.clear()
            piece, ended = exchange.take()
            if piece or ended:
                yield piece, ended
            if ended:
                return
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


class _Exchange:
    def __init__(self, body: bytes) -> None:
        self.news = asyncio.Event()
        self._body: bytes | None = body
        self._out: list[bytes] = []
        self._begun = False
        self._ended = False

    async def receive(self) -> dict[str, Any]:
        if self._body is None:
            await asyncio.Event().wait()  # a client that goes is told of by cancelling all of this
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
            self._out.append(_head(message["status"], message["headers"]))
        else:
            self._out.append(message.get("body", b""))
            self._ended = not message.get("more_body", False)
        self.news.set()

    def end(self, work: asyncio.Task[None]) -> None:
        """The application is done, whether or not it said everything."""
        if not self._begun:
            self._out.append(_head(500, [(b"content-length", b"0")]))
        self._ended = True
        self.news.set()

    def take(self) -> tuple[bytes, bool]:
        out, self._out = self._out, []
        return b"".join(out), self._ended


def _head(status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
    """The end of a response without a length is the end of its connection, which serves one request anyway."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode(), *(b": ".join(header) for header in headers)]
    return b"\r\n".join([*lines, b"connection: close", b"", b""])
