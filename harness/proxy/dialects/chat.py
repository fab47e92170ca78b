"""OpenAI's chat completions: what the proxy asks upstream anyway. Whatever is not ours to take passes as it is."""

from __future__ import annotations

from typing import Any

from harness.llm.protocol import Reply
from harness.proxy.dialects.protocol import ErrorAnswer, Json, Kind, Stream, Trouble, event, mapping, sequence

_ASKED_FOR = (
    ("token_ids", "return_token_ids"),
    ("prompt_token_ids", "return_token_ids"),
    ("prompt_token_ids", "return_prompt_token_ids"),
    ("meta_info", "return_meta_info"),
    ("logprobs", "logprobs"),
)
"""What the proxy may ask for on its own account, and the field by which a client asks for it."""

ERRORS: dict[Kind, tuple[int, str, str | None]] = {
    Kind.UNAUTHORIZED: (401, "invalid_request_error", "invalid_api_key"),
    Kind.MALFORMED: (400, "invalid_request_error", None),
    Kind.NOT_FOUND: (404, "invalid_request_error", "not_found"),
    Kind.TOO_LARGE: (413, "invalid_request_error", "request_too_large"),
    Kind.OVERFLOW: (400, "invalid_request_error", "context_length_exceeded"),
    Kind.REJECTED: (400, "invalid_request_error", None),
    Kind.INTERRUPTED: (502, "server_error", None),
    # 401 is the one status that every client of this API takes for final: others ask again, some of them forever.
    Kind.ENDED: (401, "insufficient_quota", "budget_exceeded"),
}


def openai_error(status: int, kind: str, code: str | None, message: str) -> ErrorAnswer:
    """An error in OpenAI's form."""
    return ErrorAnswer(status, {"error": {"message": message, "type": kind, "param": None, "code": code}})


class Chat:
    """POST /v1/chat/completions."""

    name = "chat"

    def question(self, body: Json) -> dict[str, Any]:
        """The body as it is."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
            raise Trouble(Kind.MALFORMED, "messages must be a list of objects, and not empty")
        tools = body.get("tools") or []
        if not isinstance(tools, list) or not all(isinstance(each, dict) for each in tools):
            raise Trouble(Kind.MALFORMED, "tools must be a list of objects")
        return {key: value for key, value in body.items() if key not in ("stream", "stream_options")}

    def answer(self, completion: Json, reply: Reply, asked: Json) -> dict[str, Any]:
        """The completion, without what the client did not ask for."""
        stripped = _strip(completion, _unwanted(asked))
        choice = next(iter(sequence(stripped.get("choices"))), None)
        calls = sequence(mapping(mapping(choice).get("message")).get("tool_calls"))
        if len(calls) == len(reply.tool_calls):
            for call, recorded in zip(calls, reply.tool_calls, strict=True):
                if isinstance(call, dict):
                    call["id"] = recorded.id
        return stripped

    def stream(self, asked: Json) -> Stream:
        """The chunks, without what the client did not ask for."""
        return _ChatStream(asked)

    def error(self, trouble: Trouble) -> ErrorAnswer:
        """OpenAI's form."""
        return openai_error(*ERRORS[trouble.kind], trouble.message)


class _ChatStream:
    def __init__(self, asked: Json) -> None:
        self._unwanted = _unwanted(asked)
        self._usage = bool(mapping(asked.get("stream_options")).get("include_usage"))

    def feed(self, chunk: Json) -> bytes:
        if not self._usage and "usage" in chunk:
            if not chunk.get("choices"):
                return b""
            chunk = {key: value for key, value in chunk.items() if key != "usage"}
        return event(_strip(chunk, self._unwanted))

    def finish(self, reply: Reply) -> bytes:
        return event("[DONE]")

    def fail(self, trouble: Trouble) -> bytes:
        return event(Chat().error(trouble).body)


def _unwanted(asked: Json) -> frozenset[str]:
    wanted = {field for field, word in _ASKED_FOR if asked.get(word)}
    return frozenset(field for field, _ in _ASKED_FOR) - wanted


def _strip(body: Json, unwanted: frozenset[str]) -> dict[str, Any]:
    stripped = {key: value for key, value in body.items() if key not in unwanted}
    if "choices" in stripped:
        stripped["choices"] = [
            {key: value for key, value in mapping(choice).items() if key not in unwanted}
            for choice in sequence(stripped["choices"])
        ]
    return stripped
