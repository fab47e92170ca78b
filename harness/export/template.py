"""A message as chat templates expect it: text for content, and a call's arguments as the object that they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def for_template(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message in OpenAI's form as a template takes it; of content in parts, the text."""
    told = dict(message)
    content = told.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    told["content"] = content or ""
    if told.get("tool_calls"):
        told["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": parsed_arguments(call["function"].get("arguments"))}}
            for call in told["tool_calls"]
        ]
    else:
        told.pop("tool_calls", None)
    return told


def parsed_arguments(arguments: object) -> object:
    """A call's arguments as an object; text that spells none stays text."""
    if not isinstance(arguments, str):
        return arguments or {}
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, dict) else arguments
