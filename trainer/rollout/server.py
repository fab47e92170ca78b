"""The policy behind OpenAI's chat completions and completions, on an address of this machine.

POST /v1/chat/completions, /v1/completions    whole or streamed
GET  /v1/models, /health
POST /v1/weights {"path": FOLDER, "version": TEXT}    with the key: sample with these weights from the next step on
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.loopback import LOOPBACK
from trainer.policy.weights import with_weights
from trainer.rollout.asked import Refused, parse
from trainer.rollout.engine import Closed, Engine, QueueFull
from trainer.rollout.form import event
from trainer.rollout.model import Job, ServedModel
from trainer.rollout.sequence import ERROR, Generation

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_BODY = 64 << 20


class App:
    """An ASGI application. Without a `key` the weights stay as they are."""

    def __init__(self, model: ServedModel, engine: Engine, *, key: str | None, request_timeout: float) -> None:
        """`request_timeout` is for one answer, waiting included, in seconds."""
        self._model, self._engine = model, engine
        self._key = key
        self._timeout = request_timeout
        self._updating = asyncio.Lock()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            await self._route(scope["method"], scope["path"].rstrip("/"), headers, receive, send)
        except Refused as refused:
            await _send_json(send, refused.status, refused.body())

    async def _route(self, method: str, path: str, headers: dict[str, str], receive: Receive, send: Send) -> None:
        if _hostname(headers.get("host", "")) not in LOOPBACK:
            raise Refused(403, "unknown host", kind="forbidden")
        if method == "GET" and path in ("/v1/models", "/health"):
            await _send_json(send, 200, self._models() if path == "/v1/models" else self._health())
            return
        work = {
            "/v1/chat/completions": self._chat,
            "/v1/completions": self._completion,
            "/v1/weights": self._update,
        }.get(path)
        if method != "POST" or work is None:
            raise Refused(404, f"there is no {method} {path[:100]}", kind="not_found")
        if work == self._update:
            self._require_key(headers)
        body = await _body(receive)
        if body is not None:
            await _while_there(receive, work(parse(body), send))

    async def _chat(self, body: dict[str, Any], send: Send) -> None:
        await self._answer(self._model.chat(body), send)

    async def _completion(self, body: dict[str, Any], send: Send) -> None:
        await self._answer(self._model.completion(body), send)

    async def _answer(self, job: Job, send: Send) -> None:
        moved = asyncio.Event()
        loop = asyncio.get_running_loop()

        def tell(_: Generation) -> None:
            loop.call_soon_threadsafe(moved.set)

        def follow(generation: Generation) -> bool:
            token, text = generation.tokens[-1], job.text
            stopped = text is not None and token not in job.ends and text.add(token)
            if job.stream:
                tell(generation)
            return stopped

        generation = Generation.of(job.prompt, job.sampling, job.ends, tell, follow if job.text is not None else None)
        try:
            self._engine.submit(generation)
            async with asyncio.timeout(self._timeout):
                if job.stream:
                    await _send_stream(send, self._stream(job, generation, moved))
                    return
                while generation.finish is None:
                    await moved.wait()
                    moved.clear()
        except QueueFull as error:
            raise Refused(429, str(error), kind="rate_limit_error", code="queue_full") from error
        except Closed as error:
            raise Refused(503, str(error), kind="server_error") from error
        except TimeoutError as error:
            late = Refused(504, f"there was no answer within {self._timeout:g} s", kind="timeout")
            if not job.stream:
                raise late from error
            await send({"type": "http.response.body", "body": event(late.body())})  # the stream has begun
            return
        finally:
            if generation.finish is None:
                self._engine.abandon(generation)
        if generation.finish == ERROR:
            raise self._failed(generation)
        await _send_json(send, 200, job.form.body(job.answer(generation), self._model.dialect.piece))

    async def _stream(self, job: Job, generation: Generation, moved: asyncio.Event) -> AsyncIterator[bytes]:
        assert job.text is not None
        piece, told, done = self._model.dialect.piece, 0, False
        yield event(job.form.opening(job.head, job.prompt))
        while not done:
            await moved.wait()
            moved.clear()
            done = generation.finish is not None  # asked before what there is, or the end could be missed
            count = len(generation.logprobs)
            if done:
                job.text.end()
            text = job.text.show(final=done)
            if count > told or text:
                start = generation.prompt_length
                ids = generation.tokens[start + told : start + count]
                yield event(job.form.part(job.head, text, ids, generation.logprobs[told:count], piece))
                told = count
        if generation.finish == ERROR:
            yield event(self._failed(generation).body())
            return
        answer = job.answer(generation)
        yield event(job.form.closing(answer, "" if answer.calls else answer.content[job.text.shown :]))
        if job.wants_usage:
            yield event(job.form.usage(answer))
        yield b"data: [DONE]\n\n"

    async def _update(self, body: dict[str, Any], send: Send) -> None:
        path, version = body.get("path"), body.get("version")
        if not isinstance(path, str) or not isinstance(version, str | int) or not str(version):
            raise Refused(400, 'weights: say {"path": FOLDER, "version": TEXT}')
        async with self._updating:
            try:
                stall = await asyncio.to_thread(self._load, Path(path), str(version)[:200])
            except UsageError as error:
                raise Refused(400, f"weights: {error}") from error
            except Closed as error:
                raise Refused(503, str(error), kind="server_error") from error
        await _send_json(send, 200, {"version": self._engine.version, "stall_sec": stall})

    def _failed(self, generation: Generation) -> Refused:
        status = 503 if self._engine.closed else 500
        return Refused(status, f"the answer could not be sampled: {generation.trouble}", kind="server_error")

    def _load(self, folder: Path, version: str) -> float:
        return self._engine.update(with_weights(self._engine.policy, folder), version)

    def _require_key(self, headers: dict[str, str]) -> None:
        if self._key is None:
            raise Refused(403, "this server was started without a key, so its weights stay", kind="forbidden")
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._key.encode()):
            raise Refused(401, "the key is wrong", kind="unauthorized")

    def _models(self) -> dict[str, Any]:
        model = {"id": self._model.name, "object": "model", "created": 0, "owned_by": "harness"}
        return {"object": "list", "data": [{**model, "max_model_len": self._model.window}]}

    def _health(self) -> dict[str, Any]:
        return {"status": "ok", "model": self._model.name, **self._engine.state()}


async def _while_there(receive: Receive, answering: Awaitable[None]) -> None:
    """Work as long as the client is there."""
    work = asyncio.ensure_future(answering)
    gone = asyncio.ensure_future(_until_gone(receive))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (work, gone):
            task.cancel()
        await asyncio.gather(work, gone, return_exceptions=True)
    if not work.cancelled():
        work.result()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(receive: Receive) -> bytes | None:
    """The request's body; None from a client that has gone. Raises Refused for one that is too large."""
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY:
            raise Refused(413, f"a request has at most {MAX_BODY >> 20} MiB")
        more = message.get("more_body", False)
    return b"".join(parts)


def _hostname(host: str) -> str:
    name = host.rsplit(":", 1)[0] if host.count(":") == 1 or host.startswith("[") else host
    return name.strip("[]").lower()


async def _send_json(send: Send, status: int, body: dict[str, Any]) -> None:
    content = json.dumps(body, separators=(",", ":")).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    if status == 429:
        head.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": content})


async def _send_stream(send: Send, parts: AsyncIterator[bytes]) -> None:
    head = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    async with contextlib.aclosing(parts) as opened:  # type: ignore[type-var]
        async for part in opened:
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
