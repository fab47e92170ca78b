"""Anthropic's messages.

Calls are streamed once they are complete: their pieces may come interleaved, which this API has no form for. Usage that
the endpoint does not tell is told as 0, for the API knows no other word; in the record it stays unknown.
"""

from __future__ import annotations

from typing import Any

from harness.llm.protocol import Reply
from harness.proxy.dialects.messages_input import choice_of, messages_of, text_of, tool_of
from harness.proxy.dialects.protocol import (
    KEEP_ALIVE,
    ErrorAnswer,
    Json,
    Kind,
    Stream,
    Trouble,
    arguments_of,
    delta_text,
    event,
    mapping,
    sequence,
    token,
)

_SIGNATURE = "unsigned"
"""Clients send thoughts back only with a signature; nobody here checks it."""

_ERRORS = {
    Kind.UNAUTHORIZED: (401, "authentication_error"),
    Kind.MALFORMED: (400, "invalid_request_error"),
    Kind.NOT_FOUND: (404, "not_found_error"),
    Kind.TOO_LARGE: (413, "request_too_large"),
    Kind.OVERFLOW: (400, "invalid_request_error"),
    Kind.REJECTED: (400, "invalid_request_error"),
    Kind.INTERRUPTED: (502, "api_error"),
    # 400 is what clients of this API do not repeat; they ask again after 401 and 429, for minutes.
    Kind.ENDED: (400, "invalid_request_error"),
}
_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_SAME = ("temperature", "top_p", "top_k", "max_tokens")


class Messages:
    """POST /v1/messages."""

    name = "messages"

    def question(self, body: Json) -> dict[str, Any]:
        """Blocks become messages, calls and results; what only this API knows (cache marks, metadata) stays behind."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
            raise Trouble(Kind.MALFORMED, "messages: a list of objects is required, and it must not be empty")
        made = [message for each in messages for message in messages_of(each)]
        if not made:
            raise Trouble(Kind.MALFORMED, "messages: at least one of them must say something")
        system = text_of(body.get("system"))
        chat: dict[str, Any] = {
            "model": body.get("model"),
            "messages": [*([{"role": "system", "content": system}] if system else []), *made],
        }
        chat |= {key: body[key] for key in _SAME if body.get(key) is not None}
        if body.get("stop_sequences"):
            chat["stop"] = body["stop_sequences"]
        tools = [tool_of(mapping(each)) for each in sequence(body.get("tools")) if "input_schema" in mapping(each)]
        if tools:
            chat["tools"] = tools
            chat |= choice_of(mapping(body.get("tool_choice")))
        return chat

    def answer(self, completion: Json, reply: Reply, asked: Json) -> dict[str, Any]:
        """A message."""
        content: list[dict[str, Any]] = []
        if reply.reasoning:
            content.append({"type": "thinking", "thinking": reply.reasoning, "signature": _SIGNATURE})
        if reply.content or not reply.tool_calls:
            content.append({"type": "text", "text": reply.content})
        content += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_of(call)}
            for call in reply.tool_calls
        ]
        return {
            **_head(completion, asked),
            "content": content,
            "stop_reason": _stop(reply),
            "stop_sequence": None,
            "usage": _usage(reply),
        }

    def stream(self, asked: Json) -> Stream:
        """Events from message_start to message_stop."""
        return _MessageStream(asked)

    def error(self, trouble: Trouble) -> ErrorAnswer:
        """Anthropic's form."""
        status, kind = _ERRORS[trouble.kind]
        message = trouble.message
        if trouble.kind is Kind.OVERFLOW:
            message = f"prompt is too long: {message}"
        return ErrorAnswer(status, {"type": "error", "error": {"type": kind, "message": message}})


class _MessageStream:
    def __init__(self, asked: Json) -> None:
        self._asked = asked
        self._started = False
        self._open: str | None = None
        self._index = -1

    def feed(self, chunk: Json) -> bytes:
        text, thought = delta_text(chunk)
        out = self._start(chunk)
        if thought:
            out += self._block("thinking", {"thinking": "", "signature": ""})
            out += self._delta({"type": "thinking_delta", "thinking": thought})
        if text:
            out += self._block("text", {"text": ""}) + self._delta({"type": "text_delta", "text": text})
        return out or KEEP_ALIVE

    def finish(self, reply: Reply) -> bytes:
        out = self._start({})
        if not reply.tool_calls and self._index < 0:
            out += self._block("text", {"text": ""})
        for call in reply.tool_calls:
            out += self._close()
            out += self._block("tool_use", {"id": call.id, "name": call.name, "input": {}})
            out += self._delta({"type": "input_json_delta", "partial_json": call.arguments})
        out += self._close()
        delta = {"stop_reason": _stop(reply), "stop_sequence": None}
        out += _event({"type": "message_delta", "delta": delta, "usage": _usage(reply)})
        return out + _event({"type": "message_stop"})

    def fail(self, trouble: Trouble) -> bytes:
        return _event(Messages().error(trouble).body)

    def _start(self, chunk: Json) -> bytes:
        if self._started:
            return b""
        self._started = True
        usage = {"input_tokens": 0, "output_tokens": 0}
        message = {
            **_head(chunk, self._asked),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return _event({"type": "message_start", "message": message})

    def _block(self, kind: str, fields: dict[str, Any]) -> bytes:
        if self._open == kind:
            return b""
        out = self._close()
        self._open, self._index = kind, self._index + 1
        block = {"type": kind, **fields}
        return out + _event({"type": "content_block_start", "index": self._index, "content_block": block})

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        signed = self._delta({"type": "signature_delta", "signature": _SIGNATURE}) if self._open == "thinking" else b""
        self._open = None
        return signed + _event({"type": "content_block_stop", "index": self._index})


def _event(data: dict[str, Any]) -> bytes:
    return event(data, str(data["type"]))


def _head(completion: Json, asked: Json) -> dict[str, Any]:
    # Clients put messages of one id together, and endpoints exist whose ids are all the same.
    return {
        "id": f"{token(completion.get('id'), 'msg')}_{len(sequence(asked.get('messages')))}",
        "type": "message",
        "role": "assistant",
        "model": asked.get("model") or completion.get("model") or "",
    }


def _stop(reply: Reply) -> str:
    if reply.tool_calls and not reply.truncated:
        return "tool_use"
    return _STOPS.get(reply.finish_reason or "stop", "end_turn")


def _usage(reply: Reply) -> dict[str, int]:
    cached = reply.cached_tokens or 0
    return {
        "input_tokens": max(0, (reply.prompt_tokens or 0) - cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": reply.completion_tokens or 0,
    }
