"""OpenAI-compatible endpoints over HTTP, one or several, with the retries that the harness does everywhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from harness import errors
from harness.llm import classify, wire
from harness.llm.openai_chat import Endpoint
from harness.llm.retry import RequestFailed, retry_after, retrying
from harness.proxy.dialects.protocol import mapping, sequence
from harness.proxy.upstream.events import chunks_in, cut
from harness.proxy.upstream.protocol import Answer, Json, Question
from harness.proxy.upstream.servers import Server, order
from harness.redaction import Redactor

if TYPE_CHECKING:
    import aiohttp

_OPENAI = "https://api.openai.com/v1"
_CONNECT_SEC = 10.0
_PROBE_SEC = 2.0


class HttpUpstream:
    """An Upstream of one server or several.

    A server that fails is not asked by others until it answers a probe, unless all servers fail.
    """

    def __init__(self, servers: Sequence[tuple[Endpoint, float]]) -> None:
        self.servers = [Server(endpoint, weight) for endpoint, weight in servers]
        self._redact = Redactor([endpoint.api_key for endpoint, _ in servers])
        self._client: aiohttp.ClientSession | None = None
        self._probe: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The model's name at the first endpoint."""
        return self.servers[0].endpoint.model

    @property
    def sampling(self) -> Mapping[str, Any]:
        """The parameters of every call, by the first endpoint."""
        endpoint = self.servers[0].endpoint
        mode = endpoint.logprobs_mode
        return endpoint.parameters if mode is None else {**endpoint.parameters, "logprobs_mode": mode}

    @asynccontextmanager
    async def ask(self, question: Question) -> AsyncIterator[Answer]:
        """Ask; an answer that has begun is not asked for again."""
        tried: set[int] = set()

        async def once(retry: int) -> Answer:
            server = self._choose(question.affinity, tried)
            tried.add(id(server))
            try:
                return replace(await self._once(server, question, held), retries=retry)
            except RequestFailed as failed:
                await held.aclose()
                if _is_sick(failed):
                    self._found_sick(server)
                raise

        async with contextlib.AsyncExitStack() as held:
            answer = await retrying(
                once,
                self.servers[0].endpoint.retry,
                time_left=question.context.time_left,
                clock=time.monotonic,
                sleep=asyncio.sleep,
                chance=random.random,
                elsewhere=lambda: any(each.healthy and id(each) not in tried for each in self.servers),
            )
            yield answer

    async def close(self) -> None:
        """Release connections."""
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _choose(self, affinity: str, tried: set[int]) -> Server:
        """The first one that this request has not asked yet; the first of all once it has asked them all."""
        ordered = order(self.servers, affinity)
        return next((each for each in ordered if id(each) not in tried and each.healthy), ordered[0])

    async def _once(self, server: Server, question: Question, held: contextlib.AsyncExitStack) -> Answer:
        """One request. `held` keeps the connection for as long as the answer is read. Raises RequestFailed."""
        import aiohttp

        endpoint = server.endpoint
        limit = min(endpoint.request_timeout_sec, question.context.time_left)
        try:
            async with asyncio.timeout(limit):
                response = await held.enter_async_context(
                    self._connected().post(_url(endpoint, "chat/completions"), **_request(endpoint, question))
                )
                if response.status != 200:
                    raise self._refused(response.status, response.headers, await response.read())
                if not question.stream:
                    body = _object(await response.read())
                    return Answer(body=body, headers=response.headers, price=endpoint.price)
                chunks = self._chunks(response, time.monotonic() + limit)
                first = await anext(chunks, None)
        except aiohttp.ClientError as error:
            raise cut(f"the connection failed: {type(error).__name__}") from error
        except TimeoutError as error:
            raise _late(limit) from error
        if first is None:
            raise cut("the stream was cut before its end")
        return Answer(chunks=_after(first, chunks), headers=response.headers, price=endpoint.price)

    async def _chunks(self, response: aiohttp.ClientResponse, until: float) -> AsyncIterator[Json]:
        """All chunks. Raises RequestFailed if the stream does not end as it should."""
        import aiohttp

        complete = False
        chunks = chunks_in(response.content.iter_any())
        while True:
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):  # never across a yield
                    chunk = await anext(chunks, None)
            except aiohttp.ClientError as error:
                raise cut(f"the stream was cut: {type(error).__name__}") from error
            except TimeoutError as error:
                raise cut("the stream did not end in time") from error
            if chunk is None:
                break
            complete = complete or any(mapping(each).get("finish_reason") for each in sequence(chunk.get("choices")))
            yield chunk
        if not complete:
            raise cut("the stream was cut before its end")

    def _refused(self, status: int, headers: Mapping[str, str], content: bytes) -> RequestFailed:
        try:
            body: object = json.loads(content)
        except (ValueError, RecursionError):
            body = content[:1000].decode("utf-8", "replace")
        failure = classify.of_status(status, body)
        error = type(failure.error)(self._redact(str(failure.error)))
        return RequestFailed(replace(failure, error=error), retry_after(headers, datetime.now(UTC)))

    def _connected(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._client is None:
            self._client = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),  # trials share the session and nothing else
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SEC),
            )
        return self._client

    def _found_sick(self, server: Server) -> None:
        if len(self.servers) < 2:
            return
        server.healthy = False
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._probe_the_sick())

    async def _probe_the_sick(self) -> None:
        while sick := [each for each in self.servers if not each.healthy]:
            await asyncio.sleep(_PROBE_SEC)
            for server in sick:
                server.healthy = await self._answers(server.endpoint)

    async def _answers(self, endpoint: Endpoint) -> bool:
        import aiohttp

        url, headers = _url(endpoint, "models"), _headers(endpoint)
        try:
            async with (
                asyncio.timeout(_CONNECT_SEC),
                self._connected().get(url, headers=headers, allow_redirects=False) as response,
            ):
                return response.status < 500
        except (aiohttp.ClientError, TimeoutError):
            return False


def _is_sick(failed: RequestFailed) -> bool:
    return isinstance(failed.failure.error, errors.ModelUnavailable | errors.ModelTimeout)


def _late(limit: float) -> RequestFailed:
    return RequestFailed(classify.Failure(errors.ModelTimeout(f"no answer within {limit:g} s"), True))


def _url(endpoint: Endpoint, path: str) -> str:
    return f"{(endpoint.base_url or _OPENAI).rstrip('/')}/{path}"


def _headers(endpoint: Endpoint) -> dict[str, str]:
    return {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}


def _request(endpoint: Endpoint, question: Question) -> dict[str, Any]:
    body: dict[str, Any] = {**question.body, **endpoint.parameters, "stream": question.stream}
    body["model"] = endpoint.model or body.get("model") or ""
    if endpoint.send_seed:
        body["seed"] = question.context.seed
    if endpoint.capture:
        body |= wire.CAPTURE
    if question.stream:
        body["stream_options"] = {"include_usage": True}
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    headers = {**_headers(endpoint), "content-type": "application/json"}
    return {"data": content, "headers": headers, "allow_redirects": False}


def _object(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise cut("the endpoint's answer is not JSON") from error
    if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
        raise cut("the endpoint's answer is no chat completion")
    return body


async def _after(first: Json, rest: AsyncIterator[Json]) -> AsyncIterator[Json]:
    try:
        yield first
        async for chunk in rest:
            yield chunk
    except RequestFailed as failed:
        raise failed.failure.error from None
