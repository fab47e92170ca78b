"""The input of OpenAI's responses as chat messages: items that one answer consisted of become one message again."""

from __future__ import annotations

from typing import Any

from harness import strict_json
from harness.proxy.dialects.protocol import Json, Kind, Trouble, mapping, plain, sequence

INPUT = {"function_call": "arguments", "custom_tool_call": "input"}
"""Where a call keeps what it is called with."""

_OUTPUTS = {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}
_ROLES = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant"}
_TEXTS = {"input_text", "output_text", "text", "summary_text", "reasoning_text"}


def messages_of(given: object) -> list[dict[str, Any]]:
    """Chat messages. Raises Trouble for items that cannot be understood."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}] if given else []
    messages: list[dict[str, Any]] = []
    answer: dict[str, Any] | None = None
    for item in map(mapping, sequence(given)):
        kind = str(item.get("type") or ("message" if "role" in item else None))
        if kind in INPUT or kind == "reasoning" or (kind == "message" and item.get("role") == "assistant"):
            if answer is None or (kind == "reasoning" and len(answer) > 2) or (kind == "message" and _spoke(answer)):
                answer = {"role": "assistant", "content": None}
                messages.append(answer)
            _add(answer, kind, item)
            continue
        answer = None
        messages.append(_message(kind, item))
    return messages


def _spoke(answer: dict[str, Any]) -> bool:
    return answer["content"] is not None or "tool_calls" in answer


def _add(answer: dict[str, Any], kind: str, item: Json) -> None:
    """Put one more item into the answer that it was part of."""
    if kind == "reasoning":
        thoughts = _text(item.get("content")) or _text(item.get("summary"))
        if thoughts:
            answer["reasoning_content"] = thoughts
    elif kind == "message":
        answer["content"] = _text(item.get("content"))
    else:
        given = str(item.get(INPUT[kind]) or "")
        arguments = given if kind == "function_call" else strict_json.dumps({"input": given})
        function = {"name": str(item.get("name") or ""), "arguments": arguments}
        call = {"id": str(item.get("call_id") or ""), "type": "function", "function": function}
        answer.setdefault("tool_calls", []).append(call)


def _message(kind: str, item: Json) -> dict[str, Any]:
    if kind in _OUTPUTS:
        return {"role": "tool", "tool_call_id": str(item.get("call_id") or ""), "content": _content(item.get("output"))}
    if kind != "message":
        raise Trouble(Kind.MALFORMED, f"input: items of type {kind[:40]!r} cannot be passed on")
    role = _ROLES.get(str(item.get("role")))
    if role is None:
        raise Trouble(Kind.MALFORMED, f"input: unknown role {str(item.get('role'))[:40]!r}")
    return {"role": role, "content": _content(item.get("content"))}


def _content(content: object) -> Any:
    return content if isinstance(content, str) else plain([_part(mapping(part)) for part in sequence(content)])


def _part(part: Json) -> dict[str, Any]:
    kind = str(part.get("type"))
    if kind in _TEXTS or kind == "refusal":
        return {"type": "text", "text": str(part.get("text") or part.get("refusal") or "")}
    if kind == "input_image" and part.get("image_url"):
        return {"type": "image_url", "image_url": {"url": str(part["image_url"])}}
    raise Trouble(Kind.MALFORMED, f"input: content of type {kind[:40]!r} cannot be passed on")


def _text(parts: object) -> str:
    if isinstance(parts, str):
        return parts
    return "".join(str(mapping(part).get("text") or mapping(part).get("refusal") or "") for part in sequence(parts))


def tools_of(tools: object) -> list[dict[str, Any]]:
    """Functions as they are, free-form tools as functions of one text; what is left out nobody here could run."""
    out = []
    for tool in map(mapping, sequence(tools)):
        function = {"name": tool.get("name"), "description": tool.get("description") or ""}
        if tool.get("type") == "function":
            out.append({**function, "parameters": tool.get("parameters") or {"type": "object", "properties": {}}})
        elif tool.get("type") == "custom":
            schema = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
            out.append({**function, "parameters": schema})
    return [{"type": "function", "function": function} for function in out]
