"""An OpenAI-compatible endpoint on loopback that answers what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer: a JSON body, raw bytes, or a stream of chunks.

    Attributes:
        cut: break the connection after what was sent. Otherwise a stream ends with the `[DONE]` line, if `done`.
        silent: send nothing until the client goes away.
    """

    status: int = 200
    body: Any = None
    raw: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Sequence[Any] | None = None
    done: bool = True
    cut: bool = False
    silent: bool = False


def completion(
    content: Any = None,
    *,
    calls: Sequence[tuple[str, str, str]] = (),
    finish: str | None = None,
    usage: Any = None,
    message: Mapping[str, Any] | None = None,
    **top: Any,
) -> Answer:
    """A whole answer; `calls` are (id, name, raw arguments), `message` replaces the message's fields."""
    body: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        body["tool_calls"] = [
            {"id": each[0], "type": "function", "function": {"name": each[1], "arguments": each[2]}} for each in calls
        ]
    choice = {
        "index": 0,
        "message": body if message is None else dict(message),
        "finish_reason": finish or ("tool_calls" if calls else "stop"),
    }
    document = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], **top}
    if usage is not None:
        document["usage"] = usage
    return Answer(body=document)


def call(name: str, *, id: str = "c1", **arguments: Any) -> Answer:
    """An answer that makes one call."""
    return completion(calls=[(id, name, json.dumps(arguments))])


def chunk(delta: Mapping[str, Any] | None = None, *, finish: str | None = None, **top: Any) -> dict[str, Any]:
    """One chunk of a stream."""
    choices = [] if delta is None else [{"index": 0, "delta": dict(delta), "finish_reason": finish}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **top}


def failure(status: int, message: str = "no", *, headers: Mapping[str, str] | None = None, **error: Any) -> Answer:
    """An error in OpenAI's form."""
    return Answer(status=status, body={"error": {"message": message, **error}}, headers=headers or {})


@dataclass
class ModelServer:
    """The endpoint. It gives its answers in order, the last one again and again; some are made from the request."""

    answers: list[Answer | Callable[[dict[str, Any]], Answer]]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._serve(reader, writer):
                    pass
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        self.headers.append(headers)
        self.requests.append(json.loads(await reader.readexactly(int(headers.get("content-length", "0")))))
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if not isinstance(answer, Answer):
            answer = answer(self.requests[-1])
        if answer.silent:
            await reader.read()
            return False
        if answer.chunks is None:
            data = answer.raw if answer.raw is not None else json.dumps(answer.body).encode()
            kind = "application/json" if answer.raw is None else "text/html"
            length = len(data) + (100 if answer.cut else 0)
            self._head(writer, answer, {"content-type": kind, "content-length": str(length)})
            writer.write(data)
            await writer.drain()
            return not answer.cut
        self._head(writer, answer, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        lines = [each if isinstance(each, str) else json.dumps(each) for each in answer.chunks]
        if answer.done and not answer.cut:
            lines.append("[DONE]")
        for line in lines:
            data = f"data: {line}\n\n".encode()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        if not answer.cut:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return not answer.cut

    @staticmethod
    def _head(writer: asyncio.StreamWriter, answer: Answer, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{k}: {v}" for k, v in {**headers, **answer.headers}.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())


@contextlib.asynccontextmanager
async def serving(*answers: Answer | Callable[[dict[str, Any]], Answer]) -> AsyncIterator[ModelServer]:
    """A running endpoint."""
    model = ModelServer(list(answers))
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await model.handle(reader, writer)
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield model
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
        await asyncio.sleep(0)  # the closed connections are told so in the loop's next round
