"""What every exporter is inside the child process, and which there are."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
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
    def label(self) -> str:
        """How it calls itself."""
        return "LangSmith" if self is Target.LANGSMITH else "OpenTelemetry"


_DISTRIBUTIONS = {Target.LANGSMITH: "langsmith", Target.OTEL: "opentelemetry-exporter-otlp-proto-http"}


def require_extra(target: Target) -> None:
    """Raises UsageError with the line that installs what is missing. Imports no SDK."""
    try:
        version(_DISTRIBUTIONS[target])
    except PackageNotFoundError:
        raise UsageError(
            f"the SDK of {target.label} is not installed: pip install 'harness-rl[{target.value}]'"
        ) from None


def open_sink(target: Target, job: JobFacts, where: str | None, env: Mapping[str, str]) -> Sink:
    """The sink, with its SDK loaded. Raises ImportError, and UsageError for what it cannot be made of."""
    if target is Target.LANGSMITH:
        from harness.tracing.langsmith import LangSmithSink

        return LangSmithSink(job, where, env)
    from harness.tracing.otel import OtelSink

    return OtelSink(job, where, env)
