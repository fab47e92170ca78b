"""OpenAI's responses, without state: every request brings its whole history, as `store: false` has it.

Calls are streamed once they are complete. Tools that only OpenAI's own service can run are not offered to the model.
"""

from __future__ import annotations

from typing import Any

from harness import strict_json
from harness.llm.protocol import Reply, ToolRequest
from harness.proxy.dialects.chat import ERRORS, openai_error
from harness.proxy.dialects.protocol import (
    KEEP_ALIVE,
    ErrorAnswer,
    Json,
    Kind,
    Stream,
    Trouble,
    delta_text,
    event,
    mapping,
    sequence,
    token,
)
from harness.proxy.dialects.responses_input import INPUT, messages_of, tools_of

_ERRORS = {
    **ERRORS,
    Kind.INTERRUPTED: (502, "server_error", "server_error"),
    # 400 is what clients of this API do not repeat; after 401 they ask again.
    Kind.ENDED: (400, "insufficient_quota", "budget_exceeded"),
}
_SAME = ("temperature", "top_p", "parallel_tool_calls", "top_logprobs", "seed")
_ECHOED: dict[str, Any] = {
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": None,
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "max_output_tokens": None,
    "previous_response_id": None,
    "reasoning": None,
    "text": {"format": {"type": "text"}},
    "store": False,
}


class Responses:
    """POST /v1/responses."""

    name = "responses"

    def question(self, body: Json) -> dict[str, Any]:
        """Items become messages, calls and results."""
        if body.get("previous_response_id"):
            raise Trouble(Kind.MALFORMED, "previous_response_id: no responses are stored; send the whole input")
        instructions = body.get("instructions")
        messages = messages_of(body.get("input"))
        if not messages:
            raise Trouble(Kind.MALFORMED, "input must be a text or a list of items, and not empty")
        chat: dict[str, Any] = {
            "model": body.get("model"),
            "messages": [*([{"role": "system", "content": instructions}] if instructions else []), *messages],
        }
        chat |= {key: body[key] for key in _SAME if body.get(key) is not None}
        if body.get("max_output_tokens") is not None:
            chat["max_tokens"] = body["max_output_tokens"]
        if mapping(body.get("reasoning")).get("effort"):
            chat["reasoning_effort"] = mapping(body["reasoning"])["effort"]
        chat |= _format(mapping(mapping(body.get("text")).get("format")))
        tools = tools_of(body.get("tools"))
        if tools:
            chat["tools"] = tools
            chat |= _choice(body.get("tool_choice"))
        else:
            chat.pop("parallel_tool_calls", None)
        return chat

    def answer(self, completion: Json, reply: Reply, asked: Json) -> dict[str, Any]:
        """A response."""
        return _response(completion, asked, _items(completion.get("id"), reply, asked), reply)

    def stream(self, asked: Json) -> Stream:
        """Events from response.created to response.completed."""
        return _ResponseStream(asked)

    def error(self, trouble: Trouble) -> ErrorAnswer:
        """OpenAI's form."""
        return openai_error(*_ERRORS[trouble.kind], trouble.message)


class _ResponseStream:
    def __init__(self, asked: Json) -> None:
        self._asked = asked
        self._head: Json = {}
        self._number = -1
        self._started = False
        self._open: tuple[str, list[str]] | None = None
        """The kind of the item that grows, "reasoning" or "message", and its text so far."""
        self._done: list[dict[str, Any]] = []

    def feed(self, chunk: Json) -> bytes:
        text, thought = delta_text(chunk)
        out = self._start(chunk)
        if thought:
            out += self._grow("reasoning", thought)
        if text:
            out += self._grow("message", text)
        return out or KEEP_ALIVE

    def finish(self, reply: Reply) -> bytes:
        out = self._start({}) + self._close()
        for call in reply.tool_calls:
            item = _call_item(self._head.get("id"), len(self._done), call, self._asked)
            out += self._item_event(
                "added", {**item, "status": "in_progress", INPUT.get(item["type"], "arguments"): ""}
            )
            if item["type"] == "function_call":
                where = {"item_id": item["id"], "output_index": len(self._done)}
                out += self._event("response.function_call_arguments.delta", {**where, "delta": call.arguments})
                out += self._event("response.function_call_arguments.done", {**where, "arguments": call.arguments})
            out += self._item_event("done", item)
            self._done.append(item)
        response = _response(self._head, self._asked, self._done, reply)
        return out + self._event(f"response.{response['status']}", {"response": response})

    def fail(self, trouble: Trouble) -> bytes:
        response = _response(self._head, self._asked, self._done, None)
        error = Responses().error(trouble).body["error"]
        response |= {"status": "failed", "error": {"code": error["code"] or error["type"], "message": error["message"]}}
        return self._start({}) + self._event("response.failed", {"response": response})

    def _start(self, chunk: Json) -> bytes:
        if self._started:
            return b""
        self._started = True
        self._head = {key: chunk.get(key) for key in ("id", "created", "model")}
        response = _response(self._head, self._asked, [], None)
        return b"".join(
            self._event(name, {"response": response}) for name in ("response.created", "response.in_progress")
        )

    def _grow(self, kind: str, text: str) -> bytes:
        out = b""
        if self._open is None or self._open[0] != kind:
            out = self._close()
            self._open = (kind, [])
            empty = _text_item(self._head.get("id"), len(self._done), kind, "")
            out += self._item_event("added", {**empty, "status": "in_progress", "content": []})
            out += self._part_event("added", empty)
        assert self._open is not None
        self._open[1].append(text)
        item = _text_item(self._head.get("id"), len(self._done), kind, "")
        name = "output_text" if kind == "message" else "reasoning_text"
        return out + self._event(f"response.{name}.delta", {**self._place(item), "delta": text, **_logprobs(kind)})

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        kind, pieces = self._open
        item = _text_item(self._head.get("id"), len(self._done), kind, "".join(pieces))
        name = "output_text" if kind == "message" else "reasoning_text"
        out = self._event(f"response.{name}.done", {**self._place(item), "text": "".join(pieces), **_logprobs(kind)})
        out += self._part_event("done", item) + self._item_event("done", item)
        self._open = None
        self._done.append(item)
        return out

    def _place(self, item: Json) -> dict[str, Any]:
        return {"item_id": item["id"], "output_index": len(self._done), "content_index": 0}

    def _part_event(self, what: str, item: Json) -> bytes:
        return self._event(f"response.content_part.{what}", {**self._place(item), "part": item["content"][0]})

    def _item_event(self, what: str, item: Json) -> bytes:
        return self._event(f"response.output_item.{what}", {"output_index": len(self._done), "item": item})

    def _event(self, kind: str, fields: Json) -> bytes:
        self._number += 1
        return event({"type": kind, "sequence_number": self._number, **fields}, kind)


def _logprobs(kind: str) -> dict[str, Any]:
    return {"logprobs": []} if kind == "message" else {}


def _items(completion_id: object, reply: Reply, asked: Json) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.reasoning:
        items.append(_text_item(completion_id, 0, "reasoning", reply.reasoning))
    if reply.content:
        items.append(_text_item(completion_id, len(items), "message", reply.content))
    for call in reply.tool_calls:
        items.append(_call_item(completion_id, len(items), call, asked))
    return items


def _text_item(completion_id: object, index: int, kind: str, text: str) -> dict[str, Any]:
    if kind == "reasoning":
        content = [{"type": "reasoning_text", "text": text}]
        return {"id": f"{token(completion_id, 'rs')}_{index}", "type": kind, "summary": [], "content": content}
    return {
        "id": f"{token(completion_id, 'msg')}_{index}",
        "type": kind,
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    }


def _call_item(completion_id: object, index: int, call: ToolRequest, asked: Json) -> dict[str, Any]:
    item = {"id": f"{token(completion_id, 'fc')}_{index}", "status": "completed", "call_id": call.id, "name": call.name}
    kinds = {str(mapping(tool).get("name")): mapping(tool).get("type") for tool in sequence(asked.get("tools"))}
    if kinds.get(call.name) == "custom":
        return {**item, "type": "custom_tool_call", "input": _custom_input(call.arguments)}
    return {**item, "type": "function_call", "arguments": call.arguments}


def _custom_input(arguments: str) -> str:
    try:
        value = mapping(strict_json.loads(arguments)).get("input")
    except ValueError:
        value = None
    return value if isinstance(value, str) else arguments


def _response(head: Json, asked: Json, items: list[dict[str, Any]], reply: Reply | None) -> dict[str, Any]:
    """`reply` is None while the response is in progress."""
    cut = reply is not None and reply.truncated
    status = "in_progress" if reply is None else "incomplete" if cut else "completed"
    return {
        "id": token(head.get("id"), "resp"),
        "object": "response",
        "created_at": head.get("created") or 0,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "model": asked.get("model") or head.get("model") or "",
        "output": list(items),
        "usage": None if reply is None else _usage(reply),
        **{key: default if asked.get(key) is None else asked[key] for key, default in _ECHOED.items()},
    }


def _usage(reply: Reply) -> dict[str, Any]:
    given, made = reply.prompt_tokens or 0, reply.completion_tokens or 0
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": reply.cached_tokens or 0},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + made,
    }


def _format(wanted: Json) -> dict[str, Any]:
    match wanted.get("type"):
        case "json_object":
            return {"response_format": {"type": "json_object"}}
        case "json_schema":
            schema = {key: wanted[key] for key in ("name", "schema", "strict", "description") if key in wanted}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
    return {}


def _choice(choice: object) -> dict[str, Any]:
    if isinstance(choice, str):
        return {"tool_choice": choice}
    name = mapping(choice).get("name")
    return {"tool_choice": {"type": "function", "function": {"name": name}}} if name else {}
