"""What every exporter is inside the child process, and which there are."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from harness.errors import UsageError
from harness.tracing.job import JobFacts
from harness.tracing.spans import Trace


class Unsent(Exception):
    """A trace did not arrive; the text says why, in one line."""


class Sink(Protocol):
    """Sends traces. Lives in a process of its own, which is ended if it hangs: it may block."""

    def send(self, trace: Trace) -> bool:
        """Send one trace; False if sampling leaves it out. Raises Unsent."""

    def finish(self) -> None:
        """The job has ended and every trace of it was sent. Raises Unsent."""


class Target(StrEnum):
    """Where traces can go."""

    LANGSMITH = "langsmith"
    OTEL = "otel"

    @property
    def title(self) -> str:
        """How it calls itself."""
        return "LangSmith" if self is Target.LANGSMITH else "OpenTelemetry"


@dataclass(frozen=True, slots=True)
class _Package:
    """What an extra brings."""

    module: str
    title: str


_PACKAGES = {
    Target.LANGSMITH: _Package("langsmith", "LangSmith's SDK"),
    Target.OTEL: _Package("opentelemetry.exporter.otlp.proto.http", "OpenTelemetry's OTLP exporter"),
}


def require_extra(target: Target) -> None:
    """Raises UsageError with the line that installs what is missing. Imports no SDK."""
    package = _PACKAGES[target]
    module = ""
    for part in package.module.split("."):
        module = f"{module}.{part}" if module else part
        try:
            found = importlib.util.find_spec(module) if module.count(".") < 1 else True
        except ImportError:
            found = None
        if not found:
            raise UsageError(f"{package.title} is not installed: pip install 'harness-rl[{target.value}]'")


def open_sink(target: Target, job: JobFacts, where: str | None, env: Mapping[str, str]) -> Sink:
    """The sink, with its SDK loaded. Raises ImportError, and UsageError for what it cannot be made of."""
    if target is Target.LANGSMITH:
        from harness.tracing.langsmith import LangSmithSink

        return LangSmithSink(job, where, env)
    from harness.tracing.otel import OtelSink

    return OtelSink(job, where, env)
