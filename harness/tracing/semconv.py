"""The one table between our spans and OpenTelemetry's conventions for generative AI. They are still in development:
what they are called is pinned here, to one version, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.strict_json import dumps
from harness.tracing.spans import Kind, Span

VERSION = "1.40.0"
SCHEMA_URL = f"https://opentelemetry.io/schemas/{VERSION}"

OPERATION = {Kind.AGENT: "invoke_agent", Kind.MODEL: "chat", Kind.TOOL: "execute_tool"}
"""`gen_ai.operation.name`; a span of another kind has none, and is named by its kind."""

EVALUATION_EVENT = "gen_ai.evaluation.result"
EVALUATION_NAME = "gen_ai.evaluation.name"
EVALUATION_SCORE = "gen_ai.evaluation.score.value"
EVALUATION_LABEL = "gen_ai.evaluation.score.label"
ERROR_TYPE = "error.type"

_Reading = Callable[[Span], Any]


def _fact(name: str) -> _Reading:
    return lambda span: span.facts.get(name)


def _sampling(name: str) -> _Reading:
    return lambda span: (span.facts.get("sampling") or {}).get(name)


def _tokens(name: str) -> _Reading:
    return lambda span: getattr(span.tokens, name) if span.tokens else None


def _text(part: str, name: str) -> _Reading:
    return lambda span: getattr(span, part).get(name)


def _messages(part: str, role: str) -> _Reading:
    """Messages, or the one text that stands for them, as the conventions' JSON schema has them."""

    def read(span: Span) -> str | None:
        content = getattr(span, part)
        found = content.get("messages")
        if found is None and (text := content.get("instruction") or content.get("output")):
            found = [{"role": role, "content": text}]
        if not found:
            return None
        spelled = [_message(each) for each in found]
        if part == "outputs":
            spelled = [{**each, "finish_reason": span.facts.get("finish_reason") or "stop"} for each in spelled]
        return dumps(spelled)

    return read


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    text = message.get("content") or ""
    if message["role"] == "tool":
        parts = [{"type": "tool_call_response", "id": message.get("tool_call_id"), "response": text}]
        return {"role": "tool", "parts": parts}
    parts = [{"type": "reasoning", "content": thought}] if (thought := message.get("reasoning_content")) else []
    parts += [{"type": "text", "content": text}] if text else []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        parts.append(
            {
                "type": "tool_call",
                "id": call["id"],
                "name": function["name"],
                "arguments": function["arguments"],
            }
        )
    return {"role": message["role"], "parts": parts}


def _arguments(span: Span) -> str | None:
    return dumps(span.inputs) if span.inputs else None


def _finish_reasons(span: Span) -> list[str] | None:
    found = span.facts.get("finish_reason")
    return [str(found)] if found else None


_ALL: Mapping[str, _Reading] = {ERROR_TYPE: lambda span: span.error}

ATTRIBUTES: Mapping[Kind, Mapping[str, _Reading]] = {
    Kind.TRIAL: {
        **_ALL,
        "gen_ai.agent.name": _fact("agent"),
        "gen_ai.agent.version": _fact("agent_version"),
        "gen_ai.request.model": lambda span: span.model,
    },
    Kind.SETUP: _ALL,
    Kind.AGENT: {
        **_ALL,
        "gen_ai.agent.name": lambda span: span.name,
        "gen_ai.agent.id": _fact("subagent"),
        "gen_ai.request.model": lambda span: span.model,
        "gen_ai.input.messages": _messages("inputs", "user"),
        "gen_ai.output.messages": _messages("outputs", "assistant"),
    },
    Kind.MODEL: {
        **_ALL,
        "gen_ai.request.model": lambda span: span.model,
        "gen_ai.request.temperature": _sampling("temperature"),
        "gen_ai.request.top_p": _sampling("top_p"),
        "gen_ai.request.top_k": _sampling("top_k"),
        "gen_ai.request.max_tokens": _sampling("max_tokens"),
        "gen_ai.request.seed": _sampling("seed"),
        "gen_ai.response.finish_reasons": _finish_reasons,
        "gen_ai.usage.input_tokens": _tokens("input"),
        "gen_ai.usage.output_tokens": _tokens("output"),
        "gen_ai.usage.cache_read.input_tokens": _tokens("cached"),
        "gen_ai.input.messages": _messages("inputs", "user"),
        "gen_ai.output.messages": _messages("outputs", "assistant"),
    },
    Kind.TOOL: {
        **_ALL,
        "gen_ai.tool.name": lambda span: span.name,
        "gen_ai.tool.call.id": _fact("call_id"),
        "gen_ai.tool.type": lambda span: "function",
        "gen_ai.tool.call.arguments": _arguments,
        "gen_ai.tool.call.result": _text("outputs", "output"),
    },
    Kind.VERIFICATION: {**_ALL, "harness.verifier.output": _text("outputs", "output")},
}
"""Each attribute with what fills it; what is unknown is left out. Facts without a row are `harness.<fact>`."""

COST = "harness.cost_usd"

_IN_TABLE = frozenset({"agent", "agent_version", "subagent", "sampling", "finish_reason", "call_id"})


def name_of(span: Span) -> str:
    """A span's name, as the conventions build it."""
    return f"{OPERATION.get(span.kind, span.kind.value)} {span.name}"


def attributes_of(span: Span) -> dict[str, Any]:
    """A span's attributes, of the types that OTLP knows."""
    found: dict[str, Any] = {"harness.span.kind": span.kind.value}
    if operation := OPERATION.get(span.kind):
        found["gen_ai.operation.name"] = operation
    found |= {name: read(span) for name, read in ATTRIBUTES[span.kind].items()}
    found |= {f"harness.{name}": value for name, value in span.facts.items() if name not in _IN_TABLE}
    if span.tokens:
        found[COST] = span.tokens.cost_usd
    return {name: _plain(value) for name, value in found.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return list(value)
    return dumps(value)
