"""OpenTelemetry: one trace per trial, by OTLP over HTTP, to any collector.

The SDK's own variables hold: OTEL_EXPORTER_OTLP_* (endpoint, headers, timeout), OTEL_TRACES_SAMPLER, and
OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true for content, which is not sent otherwise.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import harness
from harness.tracing.job import JobFacts
from harness.tracing.semconv import (
    EVALUATION_EVENT,
    EVALUATION_LABEL,
    EVALUATION_NAME,
    EVALUATION_SCORE,
    SCHEMA_URL,
    attributes_of,
    name_of,
)
from harness.tracing.settings import capture_content
from harness.tracing.sink import Unsent
from harness.tracing.spans import Kind, Trace

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span as ApiSpan

_TIMEOUT_SEC = 10.0
_PATH = "/v1/traces"


class OtelSink:
    """Sends each trace in one request, and knows when it returns whether it has arrived."""

    def __init__(self, job: JobFacts, endpoint: str | None, env: Mapping[str, str]) -> None:
        """Loads the SDK; without an endpoint its own variables name one. Raises ImportError."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._content = capture_content(env)
        timeout = None if env.get("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT") else _TIMEOUT_SEC
        self._exporter = OTLPSpanExporter(endpoint=signal_url(endpoint) if endpoint else None, timeout=timeout)
        self._ids = _record_ids()
        self._said = _LastWords()
        logging.getLogger("opentelemetry.exporter").addHandler(self._said)
        resource = {"service.name": env.get("OTEL_SERVICE_NAME") or "harness", "harness.job": job.name}
        provider = TracerProvider(resource=Resource.create(resource), id_generator=self._ids, shutdown_on_exit=False)
        self._ended = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self._ended))
        self._tracer = provider.get_tracer("harness", harness.__version__, schema_url=SCHEMA_URL)

    def send(self, trace: Trace) -> bool:
        """Send one trace; False if the SDK's sampler leaves it out. Raises Unsent."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        spans = self._readable(trace)
        if not spans:
            return False
        if self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise Unsent(self._said.last or "the collector did not take it")
        return True

    def finish(self) -> None:
        """Nothing: a collector knows no jobs."""

    def _readable(self, trace: Trace) -> list[ReadableSpan]:
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

        self._ended.clear()
        open_spans: dict[str, ApiSpan] = {}
        for bare in trace.spans:
            span = self._content.of(bare)
            self._ids.next = (trace.id_of("").int, _span_id(trace, span.key))
            made = self._tracer.start_span(
                name_of(span),
                context=set_span_in_context(open_spans[span.parent]) if span.parent is not None else None,
                kind=SpanKind.CLIENT if span.kind is Kind.MODEL else SpanKind.INTERNAL,
                attributes=attributes_of(span),
                start_time=_nanoseconds(span.start),
            )
            if span.error:
                made.set_status(Status(StatusCode.ERROR, span.error_text or span.error))
            if span.parent is None:
                for name, attributes in evaluations(trace):
                    made.add_event(name, attributes, timestamp=_nanoseconds(span.end))
            open_spans[span.key] = made
        for span in reversed(trace.spans):
            open_spans[span.key].end(_nanoseconds(span.end))
        return list(self._ended.get_finished_spans())


def evaluations(trace: Trace) -> list[tuple[str, dict[str, str | float]]]:
    """The marks of a trace as events."""
    events: list[tuple[str, dict[str, str | float]]] = []
    for mark in trace.marks:
        attributes: dict[str, str | float] = {EVALUATION_NAME: mark.key}
        if mark.score is not None:
            attributes[EVALUATION_SCORE] = mark.score
        if mark.value is not None:
            attributes[EVALUATION_LABEL] = mark.value
        events.append((EVALUATION_EVENT, attributes))
    return events


def signal_url(endpoint: str) -> str:
    """Where traces are posted: an address without a path gets the protocol's own."""
    return endpoint if urlsplit(endpoint).path.strip("/") else endpoint.rstrip("/") + _PATH


def _span_id(trace: Trace, key: str) -> int:
    digest = hashlib.sha256(f"{trace.seed}/{key}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") or 1


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1_000


class _LastWords(logging.Handler):
    """Remembers what the SDK said last: it logs why an export failed, and returns only that it did."""

    last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = " ".join(record.getMessage().split())[:160]


def _record_ids() -> Any:
    """A generator that gives the SDK the ids that follow from the record: `next` is the trace's and the span's."""
    from opentelemetry.sdk.trace.id_generator import IdGenerator

    class RecordIds(IdGenerator):
        next = (1, 1)

        def generate_trace_id(self) -> int:
            return self.next[0]

        def generate_span_id(self) -> int:
            return self.next[1]

    return RecordIds()
