"""The one table between our spans and OpenTelemetry's conventions for generative AI. They are still in development:
what they are called is pinned here, to one version, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.strict_json import dumps
from harness.tracing.spans import Kind, Span

VERSION = "1.38.0"
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
    def read(span: Span) -> str | None:
        found = getattr(span, part).get(name)
        return None if found is None else found if isinstance(found, str) else dumps(found)

    return read


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
        "gen_ai.input.messages": _text("inputs", "instruction"),
        "gen_ai.output.messages": _text("outputs", "output"),
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
        "gen_ai.input.messages": _text("inputs", "messages"),
        "gen_ai.output.messages": _text("outputs", "messages"),
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
