"""The input of Anthropic's messages as chat messages: blocks become texts, calls and results."""

from __future__ import annotations

import json
from typing import Any

from harness.proxy.dialects.protocol import Json, Kind, Trouble, mapping, plain, sequence


def text_of(content: object) -> str:
    """The text of a content, blocks that are none left out."""
    if isinstance(content, str):
        return content
    return "\n".join(str(mapping(part).get("text") or "") for part in sequence(content) if "text" in mapping(part))


def messages_of(message: Json) -> list[dict[str, Any]]:
    """A message's text, calls and results. Raises Trouble for what cannot be understood."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        raise Trouble(Kind.MALFORMED, f"messages: unknown role {str(role)[:40]!r}")
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    blocks = [mapping(block) for block in sequence(content)]
    if role == "assistant":
        return [_assistant(blocks)]
    if role == "system":
        return [{"role": "system", "content": text_of(content)}]
    results = [
        {
            "role": "tool",
            "tool_call_id": str(block.get("tool_use_id") or ""),
            "content": plain(_parts(block.get("content"))),
        }
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    rest = _parts([block for block in blocks if block.get("type") != "tool_result"])
    return [*results, *([{"role": "user", "content": plain(rest)}] if rest else [])]


def _assistant(blocks: list[Json]) -> dict[str, Any]:
    text = "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")
    thoughts = "".join(str(block.get("thinking") or "") for block in blocks if block.get("type") == "thinking")
    calls = [
        {
            "id": str(block.get("id") or ""),
            "type": "function",
            "function": {
                "name": str(block.get("name") or ""),
                "arguments": json.dumps(block.get("input") or {}, ensure_ascii=False),
            },
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
    if thoughts:
        message["reasoning_content"] = thoughts
    if calls:
        message["tool_calls"] = calls
    return message


def _parts(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    parts: list[dict[str, Any]] = []
    for block in map(mapping, sequence(content)):
        source = mapping(block.get("source"))
        if block.get("type") == "text":
            parts.append({"type": "text", "text": str(block.get("text") or "")})
        elif block.get("type") == "image" and source.get("type") == "base64":
            url = f"data:{source.get('media_type')};base64,{source.get('data')}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        elif block.get("type") == "image":
            parts.append({"type": "image_url", "image_url": {"url": str(source.get("url") or "")}})
        else:
            raise Trouble(Kind.MALFORMED, f"content blocks of type {str(block.get('type'))[:40]!r} cannot be passed on")
    return parts


def tool_of(tool: Json) -> dict[str, Any]:
    """A tool as a function."""
    function = {
        "name": tool.get("name"),
        "description": tool.get("description") or "",
        "parameters": tool.get("input_schema"),
    }
    return {"type": "function", "function": function}


def choice_of(choice: Json) -> dict[str, Any]:
    """Which tools the model has to call, and whether several at once."""
    out: dict[str, Any] = {}
    match choice.get("type"):
        case "auto" | "none" as word:
            out["tool_choice"] = word
        case "any":
            out["tool_choice"] = "required"
        case "tool":
            out["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    if choice.get("disable_parallel_tool_use"):
        out["parallel_tool_calls"] = False
    return out
