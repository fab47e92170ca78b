"""OpenAI's chat format: our messages as its JSON, and its JSON, whole or streamed, as a reply.

Servers leave out fields, send null for text, repeat call ids or forget them; whatever is missing stays unknown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness import strict_json
from harness.llm import sampled
from harness.llm.price import Price
from harness.llm.protocol import Message, Reply, ToolRequest, ToolSchema

Json = Mapping[str, Any]
NO_HEADERS: Mapping[str, str] = {}

CAPTURE = {"logprobs": True, "return_token_ids": True, "return_prompt_token_ids": True, "return_meta_info": True}
"""What vLLM and SGLang are asked for sampled tokens with; each of them ignores the other's words."""


def message_json(message: Message) -> dict[str, Any]:
    """One message as the endpoint wants it."""
    body: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        body["content"] = message.content or None
        body["tool_calls"] = _calls_json(message.tool_calls)
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    return body


def _calls_json(calls: Sequence[ToolRequest]) -> list[dict[str, Any]]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]


def schema_from(tool: Json) -> ToolSchema:
    """The tool that `tool_json` would tell of."""
    function = _mapping(tool.get("function"))
    return ToolSchema(
        name=_text(function.get("name")),
        description=_text(function.get("description")),
        parameters=_mapping(function.get("parameters")),
    )


def body_from(reply: Reply, *, completion_id: str, model: str) -> dict[str, Any]:
    """A reply as the whole response that `reply_from` would read it from."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if reply.refusal is not None:
        message["refusal"] = reply.refusal
    if reply.tool_calls:
        message["tool_calls"] = _calls_json(reply.tool_calls)
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": reply.finish_reason or "stop"}
    body: dict[str, Any] = {
        "id": completion_id,
        "object": "chat.completion",
        "created": 0,
        "model": reply.model or model,
    }
    if reply.prompt_token_ids is not None:
        body["prompt_token_ids"] = list(reply.prompt_token_ids)
    if reply.completion_token_ids is not None:
        choice["token_ids"] = list(reply.completion_token_ids)
    if reply.logprobs is not None:
        choice["logprobs"] = {"content": [{"token": "", "logprob": value} for value in reply.logprobs]}
    if reply.policy_version is not None:
        body["policy_version"] = reply.policy_version
    body["choices"] = [choice]
    if reply.prompt_tokens is not None or reply.completion_tokens is not None:
        given, made = reply.prompt_tokens or 0, reply.completion_tokens or 0
        body["usage"] = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
        if reply.cached_tokens is not None:
            body["usage"]["prompt_tokens_details"] = {"cached_tokens": reply.cached_tokens}
    return body


def chunks_of(body: Json) -> list[dict[str, Any]]:
    """A whole response as the chunks of a stream: the role, the reasoning, the text, the calls, the end, the usage."""
    choice = _mapping(next(iter(_sequence(body.get("choices"))), None))
    message = _mapping(choice.get("message"))
    own = {"finish_reason", "message", "delta", "index"}
    head = {key: value for key, value in body.items() if key not in ("choices", "usage", "object")}

    def chunk(delta: dict[str, Any], finish: object = None, **more: Any) -> dict[str, Any]:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish, **more}]
        return {**head, "object": "chat.completion.chunk", "choices": choices}

    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [
        chunk({key: message[key]})
        for key in ("reasoning_content", "reasoning", "content", "refusal")
        if message.get(key)
    ]
    calls = [{"index": index, **_mapping(call)} for index, call in enumerate(_sequence(message.get("tool_calls")))]
    chunks += [chunk({"tool_calls": [call]}) for call in calls]
    rest = {key: value for key, value in choice.items() if key not in own}
    chunks.append(chunk({}, choice.get("finish_reason") or "stop", **rest))
    if body.get("usage") is not None:
        chunks.append({**head, "object": "chat.completion.chunk", "choices": [], "usage": body["usage"]})
    return chunks


def tool_json(tool: ToolSchema) -> dict[str, Any]:
    """One tool as the endpoint wants it."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
    }


def reply_from(body: Json, price: Price | None, headers: Mapping[str, str] = NO_HEADERS) -> Reply:
    """The reply in a whole response."""
    choice = _mapping(next(iter(_sequence(body.get("choices"))), None))
    message = _mapping(choice.get("message"))
    return _reply(body, choice, message, _calls(_sequence(message.get("tool_calls"))), price, headers)


class StreamedReply:
    """Puts a streamed response together, chunk by chunk."""

    def __init__(self, headers: Mapping[str, str] = NO_HEADERS) -> None:
        self._headers = headers
        self._top: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._text: dict[str, list[str]] = {"content": [], "reasoning_content": [], "refusal": []}
        self._calls: dict[Any, dict[str, str]] = {}
        self._token_ids: list[Any] = []
        self._logprobs: list[Any] = []

    @property
    def complete(self) -> bool:
        """Whether the terminal chunk came; without it the stream was cut."""
        return self._choice.get("finish_reason") is not None

    def add(self, chunk: Json) -> None:
        """Take one chunk."""
        for key in sampled.TOP_KEYS:
            if chunk.get(key) is not None:
                self._top[key] = chunk[key]
        choice = _mapping(next(iter(_sequence(chunk.get("choices"))), None))
        for key in sampled.CHOICE_KEYS:
            if choice.get(key) is not None:
                self._choice[key] = choice[key]
        self._token_ids += _sequence(choice.get("token_ids"))
        self._logprobs += _sequence(_mapping(choice.get("logprobs")).get("content"))
        delta = _mapping(choice.get("delta"))
        for key, parts in self._text.items():
            value = delta.get(key) or (delta.get("reasoning") if key == "reasoning_content" else None)
            if isinstance(value, str):
                parts.append(value)
        for position, part in enumerate(_sequence(delta.get("tool_calls"))):
            self._add_call(_mapping(part), position)

    def reply(self, price: Price | None) -> Reply:
        """The reply so far."""
        choice = dict(self._choice)
        if self._token_ids:
            choice["token_ids"] = self._token_ids
        if self._logprobs:
            choice["logprobs"] = {"content": self._logprobs}
        message = {key: "".join(parts) for key, parts in self._text.items() if parts}
        calls = [{"id": call["id"], "function": call} for call in self._calls.values()]
        return _reply(self._top, choice, message, _calls(calls), price, self._headers)

    def _add_call(self, part: Json, position: int) -> None:
        index = part.get("index")
        call = self._calls.setdefault(index if index is not None else position, {"id": "", "name": "", "arguments": ""})
        function = _mapping(part.get("function"))
        call["id"] = call["id"] or str(part.get("id") or "")
        call["name"] += str(function.get("name") or "")
        call["arguments"] += str(function.get("arguments") or "")


def _reply(
    body: Json,
    choice: Json,
    message: Json,
    calls: tuple[ToolRequest, ...],
    price: Price | None,
    headers: Mapping[str, str],
) -> Reply:
    usage = _mapping(body.get("usage"))
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    cached = _count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    finish = choice.get("finish_reason")
    refusal = _text(message.get("refusal")) or (str(finish) if finish == "content_filter" else None)
    tokens = sampled.tokens_of(body, choice, headers)
    return Reply(
        content=_text(message.get("content")),
        reasoning=_text(message.get("reasoning_content") or message.get("reasoning")) or None,
        tool_calls=calls,
        finish_reason=str(finish) if finish is not None else None,
        refusal=refusal,
        model=str(body["model"]) if body.get("model") else None,
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=completion,
        cost_usd=price.of(prompt, cached, completion) if price else None,
        prompt_token_ids=tokens.prompt,
        completion_token_ids=tokens.completion,
        logprobs=tokens.logprobs,
        policy_version=tokens.policy_version,
        version_runs=tokens.version_runs,
        engine=tokens.engine,
    )


def _calls(raw: Sequence[Any]) -> tuple[ToolRequest, ...]:
    """The calls, each under an id of its own: one that is missing or already taken is replaced by its position."""
    calls: list[ToolRequest] = []
    taken: set[str] = set()
    for position, item in enumerate(raw):
        call = _mapping(item)
        function = _mapping(call.get("function"))
        call_id = _text(call.get("id"))
        if not call_id or call_id in taken:
            call_id = f"{call_id or 'call'}_{position}"
            while call_id in taken:
                call_id += "_"
        taken.add(call_id)
        arguments = function.get("arguments")
        calls.append(
            ToolRequest(
                id=call_id,
                name=_text(function.get("name")),
                arguments=arguments
                if isinstance(arguments, str)
                else ""
                if arguments is None
                else json.dumps(arguments),
            )
        )
    return tuple(calls)


def _text(value: object) -> str:
    """Text, whether it comes as such, as null, or as a list of parts."""
    if isinstance(value, str):
        return strict_json.whole(value)
    return "".join(_text(_mapping(part).get("text")) for part in _sequence(value))


def _mapping(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
