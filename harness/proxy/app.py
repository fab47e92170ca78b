"""The proxy's HTTP side: who may ask, in which dialect, and how an answer travels."""

from __future__ import annotations

import asyncio
import hmac
import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, NoReturn

from starlette.datastructures import Headers, QueryParams
from starlette.types import Message, Receive, Scope, Send

from harness import strict_json
from harness.proxy.dialects.protocol import Dialect, Kind, Trouble
from harness.proxy.exchange import Exchange, Request
from harness.proxy.lease import Lease
from harness.proxy.routes import Route, Wanted, route_of
from harness.proxy.upstream.protocol import Upstream

MAX_BODY = 64 << 20
_CHARS_PER_TOKEN = 4
_NO_RETRY = (b"x-should-retry", b"false")
"""What the SDKs of OpenAI and Anthropic obey."""


class App:
    """An ASGI application. `find` gives the lease of a name, `hosts` are the names that it may be called by."""

    def __init__(self, find: Callable[[str], Lease | None], upstream: Upstream, hosts: frozenset[str]) -> None:
        self._find = find
        self._upstream = upstream
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        if _hostname(headers.get("host", "")) not in self._hosts:
            await _send_json(send, 403, {"error": {"message": "unknown host", "type": "forbidden"}})
            return
        name, _, path = str(scope["path"]).strip("/").partition("/")
        query = QueryParams(scope.get("query_string", b""))
        route = route_of(scope["method"], path, query, headers)
        lease = self._find(name)
        if lease is None or not _knows_key(headers, query, lease.key):
            unknown = Trouble(Kind.UNAUTHORIZED, "no such key, or it is no longer valid")
            await _send_trouble(send, route.dialect, unknown)
            return
        visit = _Visit(self._upstream, lease, route, headers.get("user-agent", ""))
        if route.wanted is Wanted.NOTHING:
            await visit.tell(send, Trouble(Kind.NOT_FOUND, f"there is no {scope['method']} {path[:100]}{route.hint}"))
        else:
            await visit.serve(receive, send)


class _Visit:
    """One request of a client that has a live key."""

    def __init__(self, upstream: Upstream, lease: Lease, route: Route, client: str) -> None:
        self._upstream = upstream
        self._lease = lease
        self._route = route
        self._client = client
        self._begun = False

    async def serve(self, receive: Receive, send: Send) -> None:
        """Answer, or be told that the client has gone or the lease was closed."""
        match self._route.wanted:
            case Wanted.MODELS:
                await _send_json(send, 200, self._route.tell(self._upstream.name))
            case Wanted.WEBSOCKET:
                error = {"message": "websockets are not spoken here", "type": "not_supported"}
                await _send_json(send, 426, {"error": error})
            case _:
                await self._watched(receive, send)

    async def _watched(self, receive: Receive, send: Send) -> None:
        try:
            body = await _body(receive)
        except Trouble as trouble:
            await self.tell(send, trouble)
            return
        if body is None:
            return
        work = asyncio.create_task(self._answer(body, send))
        gone = asyncio.create_task(_until_gone(receive))
        self._lease.in_flight.add(work)
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._lease.in_flight.discard(work)
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)
        if not work.cancelled():
            work.result()
        elif self._lease.closed and not self._begun:
            await self.tell(send, Trouble(Kind.UNAUTHORIZED, "the key is no longer valid"))

    async def _answer(self, body: bytes, send: Send) -> None:
        try:
            parsed = _parse(body)
            if self._route.wanted is Wanted.COUNT:
                await _send_json(send, 200, self._route.tell(math.ceil(len(body) / _CHARS_PER_TOKEN)))
                return
            request = Request(dialect=self._route.dialect, body={**parsed, **self._route.told}, client=self._client)
            async with Exchange(self._lease, request, self._upstream).answer() as answer:
                self._begun = True
                if isinstance(answer, dict):
                    await _send_json(send, 200, answer)
                else:
                    await _send_stream(send, answer)
        except Trouble as trouble:
            await self.tell(send, trouble)
        except OSError as error:  # the record cannot be written
            self._lease.fail(error)
            if not self._begun:
                await self.tell(send, Trouble(Kind.ENDED, "the run cannot go on; no request will be answered any more"))

    async def tell(self, send: Send, trouble: Trouble) -> None:
        """Tell the client of trouble, in its dialect."""
        await _send_trouble(send, self._route.dialect, trouble)


def _hostname(host: str) -> str:
    name = host.rsplit(":", 1)[0] if host.count(":") == 1 or host.startswith("[") else host
    return name.strip("[]").lower()


def _knows_key(headers: Headers, query: QueryParams, key: str) -> bool:
    bearer = headers.get("authorization", "")
    given = (
        headers.get("x-api-key", ""),
        bearer[7:].strip() if bearer[:7].lower() == "bearer " else "",
        headers.get("x-goog-api-key", ""),
        query.get("key", ""),  # where older clients of Google's API have it
    )
    return any(hmac.compare_digest(each.encode(), key.encode()) for each in given)


async def _body(receive: Receive) -> bytes | None:
    """The request's body; None from a client that has gone. Raises Trouble for one that is too large."""
    parts: list[bytes] = []
    size = 0
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY:
            raise Trouble(Kind.TOO_LARGE, f"a request has at most {MAX_BODY >> 20} MiB")
        if not message.get("more_body"):
            return b"".join(parts)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _parse(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body, parse_constant=_no_constant)  # what is recorded of it is cleaned there
    except (ValueError, RecursionError) as error:
        raise Trouble(Kind.MALFORMED, "the request's body is not JSON") from error
    if not isinstance(parsed, dict):
        raise Trouble(Kind.MALFORMED, "the request's body is no JSON object")
    return parsed


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


async def _send_trouble(send: Send, dialect: Dialect, trouble: Trouble) -> None:
    error = dialect.error(trouble)
    await _send_json(send, error.status, error.body, *([] if trouble.kind is Kind.INTERRUPTED else [_NO_RETRY]))


async def _send_json(send: Send, status: int, body: dict[str, Any], *headers: tuple[bytes, bytes]) -> None:
    content = strict_json.dumps(body).encode("utf-8", "replace")
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": content})


async def _send_stream(send: Send, pieces: AsyncIterator[bytes]) -> None:
    head = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    try:
        async for piece in pieces:
            if piece:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
    finally:
        with suppress(AttributeError):
            await pieces.aclose()  # type: ignore[attr-defined]
    await send({"type": "http.response.body", "body": b""})
