"""Server-sent events, as far as chat completions use them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from typing import Any

from harness.errors import ModelUnavailable
from harness.llm import classify
from harness.llm.retry import RequestFailed

_MAX_EVENT = 64 << 20


def cut(message: str) -> RequestFailed:
    """The failure of a connection that ended too early; it is worth another try."""
    return RequestFailed(classify.Failure(ModelUnavailable(message), True))


async def chunks_in(pieces: AsyncIterable[bytes]) -> AsyncGenerator[dict[str, Any], None]:
    """The JSON objects of a stream, up to its end or its `[DONE]`. Raises RequestFailed for anything else."""
    data: list[bytes] = []
    async for line in _lines(pieces):
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            text, data = b"\n".join(data), []
            if text == b"[DONE]":
                return
            yield _chunk(text)
    if data and b"\n".join(data) != b"[DONE]":
        yield _chunk(b"\n".join(data))


async def _lines(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
        if len(rest) > _MAX_EVENT:
            raise cut("an event of the stream has no end")
    if rest:
        yield rest.removesuffix(b"\r")


def _chunk(text: bytes) -> dict[str, Any]:
    try:
        chunk = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise cut("the stream holds what is not JSON") from error
    if not isinstance(chunk, dict):
        raise cut("the stream holds what is no object")
    if "error" in chunk and not chunk.get("choices"):
        raise RequestFailed(classify.of_stream_error(chunk))
    return chunk
