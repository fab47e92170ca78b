"""Google's Gemini API: generateContent and streamGenerateContent.

Its paths hold what other APIs' bodies do; here they stand in the body as `model` and `stream` (see
`harness.proxy.routes`). Calls are streamed once they are complete, with ids, as this API's newer models have them.
Thoughts are told to those who ask for them. Usage that the endpoint does not tell is left out.
"""

from __future__ import annotations

from typing import Any

from harness.llm.protocol import Reply
from harness.proxy.dialects.gemini_input import field, messages_of, text_of
from harness.proxy.dialects.gemini_tools import choice_of, functions_of, json_schema
from harness.proxy.dialects.protocol import (
    ErrorAnswer,
    Json,
    Kind,
    Stream,
    Trouble,
    arguments_of,
    delta_text,
    event,
    mapping,
    token,
)

_ERRORS = {
    Kind.UNAUTHORIZED: (401, "UNAUTHENTICATED"),
    Kind.MALFORMED: (400, "INVALID_ARGUMENT"),
    Kind.NOT_FOUND: (404, "NOT_FOUND"),
    Kind.TOO_LARGE: (413, "INVALID_ARGUMENT"),
    Kind.OVERFLOW: (400, "INVALID_ARGUMENT"),
    Kind.REJECTED: (400, "INVALID_ARGUMENT"),
    Kind.INTERRUPTED: (503, "UNAVAILABLE"),
    # 400 is what clients of this API do not repeat; they ask again after 429, and sign in anew after 401 and 403.
    Kind.ENDED: (400, "FAILED_PRECONDITION"),
}
_STOPS = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}
_SAME = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "maxOutputTokens": "max_tokens",
    "stopSequences": "stop",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}


class Gemini:
    """POST /v1beta/models/MODEL:generateContent and :streamGenerateContent."""

    name = "gemini"

    def question(self, body: Json) -> dict[str, Any]:
        """Parts become messages, calls and results; what only Google's service knows (safety settings) stays behind."""
        if not isinstance(body.get("contents"), list):
            raise Trouble(Kind.MALFORMED, "contents: a list of objects is required")
        if field(body, "cachedContent"):
            raise Trouble(Kind.MALFORMED, "cachedContent: no contents are stored; send them all")
        messages = messages_of(body["contents"])
        if not messages:
            raise Trouble(Kind.MALFORMED, "contents: at least one of them must say something")
        system = text_of(field(body, "systemInstruction"))
        config = mapping(field(body, "generationConfig"))
        if field(config, "candidateCount") not in (None, 1):
            raise Trouble(Kind.MALFORMED, "generationConfig.candidateCount: one answer is given at a time")
        chat: dict[str, Any] = {
            "model": body.get("model"),
            "messages": [*([{"role": "system", "content": system}] if system else []), *messages],
        }
        given = {ours: field(config, theirs) for theirs, ours in _SAME.items()}
        chat |= {key: value for key, value in given.items() if value not in (None, [])}
        chat |= _format(config)
        choice = mapping(field(mapping(field(body, "toolConfig")), "functionCallingConfig"))
        tools = functions_of(body.get("tools"), choice)
        return {**chat, "tools": tools, **choice_of(choice)} if tools else chat

    def answer(self, completion: Json, reply: Reply, asked: Json) -> dict[str, Any]:
        """The one candidate, and what it took."""
        parts = [{"text": reply.reasoning, "thought": True}] if reply.reasoning and _wants_thoughts(asked) else []
        if reply.content:
            parts.append({"text": reply.content})
        return {**_event([*parts, *_calls(reply)], completion, asked, reply), **_usage(reply)}

    def stream(self, asked: Json) -> Stream:
        """An event for each piece of text, and one with all calls."""
        return _GeminiStream(asked)

    def error(self, trouble: Trouble) -> ErrorAnswer:
        """Google's form."""
        status, kind = _ERRORS[trouble.kind]
        message = trouble.message
        if trouble.kind is Kind.OVERFLOW:
            message = f"The input token count exceeds the maximum number of tokens allowed: {message}"
        return ErrorAnswer(status, {"error": {"code": status, "message": message, "status": kind}})


class _GeminiStream:
    def __init__(self, asked: Json) -> None:
        self._asked = asked
        self._head: Json = {}

    def feed(self, chunk: Json) -> bytes:
        self._head = self._head or {key: chunk.get(key) for key in ("id", "model")}
        text, thought = delta_text(chunk)
        parts: list[dict[str, Any]] = []
        if thought and _wants_thoughts(self._asked):
            parts.append({"text": thought, "thought": True})
        if text:
            parts.append({"text": text})
        return event(_event(parts, self._head, self._asked)) if parts else b""  # comments are no part of this API

    def finish(self, reply: Reply) -> bytes:
        return event({**_event(_calls(reply), self._head, self._asked, reply), **_usage(reply)})

    def fail(self, trouble: Trouble) -> bytes:
        return event(Gemini().error(trouble).body)


def _event(parts: list[dict[str, Any]], head: Json, asked: Json, reply: Reply | None = None) -> dict[str, Any]:
    """A piece of an answer; `reply` is the whole of it, and comes with the last piece."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts or [{"text": ""}]}, "index": 0}
    if reply is not None:
        candidate["finishReason"] = _STOPS.get(reply.finish_reason or "stop", "STOP")
    return {
        "candidates": [candidate],
        "modelVersion": asked.get("model") or head.get("model") or "",
        "responseId": token(head.get("id"), "r"),
    }


def _calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {"functionCall": {"id": call.id, "name": call.name, "args": arguments_of(call)}} for call in reply.tool_calls
    ]


def _usage(reply: Reply) -> dict[str, Any]:
    counts = {
        "promptTokenCount": reply.prompt_tokens,
        "cachedContentTokenCount": reply.cached_tokens,
        "candidatesTokenCount": reply.completion_tokens,
    }
    usage = {name: count for name, count in counts.items() if count is not None}
    if reply.prompt_tokens is not None and reply.completion_tokens is not None:
        usage["totalTokenCount"] = reply.prompt_tokens + reply.completion_tokens
    return {"usageMetadata": usage} if usage else {}


def _wants_thoughts(asked: Json) -> bool:
    config = mapping(field(mapping(field(asked, "generationConfig")), "thinkingConfig"))
    return field(config, "includeThoughts") is True


def _format(config: Json) -> dict[str, Any]:
    if field(config, "responseMimeType") != "application/json":
        return {}
    schema = field(config, "responseJsonSchema")
    if not isinstance(schema, dict):
        given = field(config, "responseSchema")
        schema = json_schema(given) if isinstance(given, dict) else None
    if schema is None:
        return {"response_format": {"type": "json_object"}}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}
