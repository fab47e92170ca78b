"""The contents of Google's Gemini API as chat messages: parts become texts, thoughts, calls and results.

This API knows fields by two spellings, `inlineData` and `inline_data`, and calls and results with and without an id:
those without belong together by name and order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from harness.proxy.dialects.protocol import Json, Kind, Trouble, mapping, plain, sequence

_SAID = ("output", "result")
"""Fields of a result that hold what a function said, where nothing else stands beside them."""
_MARKS = {"thought", "thoughtSignature", "thought_signature"}
"""Fields of a part that say nothing by themselves."""


def field(value: Json, name: str) -> Any:
    """A field by its name, or by the same name in snake case."""
    return value[name] if name in value else value.get(re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name))


def text_of(content: object) -> str:
    """The text of a content, or of a text; parts that are none are left out."""
    if isinstance(content, str):
        return content
    parts = [mapping(part) for part in sequence(mapping(content).get("parts"))]
    return "\n".join(str(part["text"]) for part in parts if isinstance(part.get("text"), str))


def messages_of(contents: object) -> list[dict[str, Any]]:
    """Chat messages. Raises Trouble for what cannot be understood."""
    messages: list[dict[str, Any]] = []
    calls = _Calls([])
    for content in sequence(contents):
        if not isinstance(content, dict):
            raise Trouble(Kind.MALFORMED, "contents: a list of objects is required")
        role, parts = content.get("role") or "user", [mapping(part) for part in sequence(content.get("parts"))]
        if role == "model":
            messages.append(_answer(parts, len(messages)))
            calls = _Calls(messages[-1].get("tool_calls", ()))
        elif role in ("user", "function"):
            given = [mapping(field(part, "functionResponse")) for part in parts if field(part, "functionResponse")]
            results = [{"role": "tool", "tool_call_id": calls.of(each), "content": _result(each)} for each in given]
            messages += [each for at, each in enumerate(results) if each not in results[:at]]  # some say it twice
            rest = [_part(part) for part in parts if not field(part, "functionResponse")]
            messages += [{"role": "user", "content": plain(rest)}] if rest else []
        else:
            raise Trouble(Kind.MALFORMED, f"contents: unknown role {str(role)[:40]!r}")
    return messages


class _Calls:
    """The calls of an answer, and which of them a result is of."""

    def __init__(self, calls: Sequence[Json]) -> None:
        self._ids = {each["id"] for each in calls}
        self._unanswered = [(str(each["id"]), each["function"]["name"]) for each in calls]

    def of(self, result: Json) -> str:
        """The call of the result's id, else the first unanswered one of its name."""
        given = str(result.get("id") or "")
        if given not in self._ids:
            given = next((call_id for call_id, name in self._unanswered if name == result.get("name")), given)
        self._unanswered = [each for each in self._unanswered if each[0] != given]
        return given


def _answer(parts: list[Json], position: int) -> dict[str, Any]:
    """What the model said before; `position` makes ids for calls that have none."""
    texts: dict[bool, list[str]] = {True: [], False: []}
    calls: list[dict[str, Any]] = []
    for part in parts:
        call = field(part, "functionCall")
        if isinstance(part.get("text"), str):
            texts[part.get("thought") is True].append(part["text"])
        elif isinstance(call, dict):
            function = {"name": str(call.get("name") or ""), "arguments": _dumped(call.get("args") or {})}
            call_id = str(call.get("id") or f"call_{position}_{len(calls)}")
            calls.append({"id": call_id, "type": "function", "function": function})
        elif part.keys() - _MARKS:
            raise Trouble(Kind.MALFORMED, f"contents: the model's parts with {_kinds(part)} cannot be passed on")
    text = "".join(texts[False])
    message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
    if texts[True]:
        message["reasoning_content"] = "".join(texts[True])
    if calls:
        message["tool_calls"] = calls
    return message


def _result(given: Json) -> Any:
    parts = [{"type": "text", "text": _said(mapping(given.get("response")))}]
    return plain([*parts, *(_part(mapping(part)) for part in sequence(given.get("parts")))])


def _said(response: Json) -> str:
    if len(response) == 1:
        ((name, value),) = response.items()
        if name in _SAID and isinstance(value, str):
            return value
    return _dumped(response)


def _part(part: Json) -> dict[str, Any]:
    data = mapping(field(part, "inlineData") or field(part, "fileData"))
    kind = str(field(data, "mimeType") or "")
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if not kind.startswith("image/"):
        raise Trouble(Kind.MALFORMED, f"contents: parts with {kind[:40] or _kinds(part)} cannot be passed on")
    url = f"data:{kind};base64,{data['data']}" if "data" in data else str(field(data, "fileUri") or "")
    return {"type": "image_url", "image_url": {"url": url}}


def _kinds(part: Json) -> str:
    return " and ".join(str(key)[:40] for key in list(part)[:3]) or "nothing"


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
