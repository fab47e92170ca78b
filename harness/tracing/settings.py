"""The SDKs' own environment variables, as far as they are ours to obey. Read once, passed on explicitly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from harness.errors import UsageError
from harness.tracing.content import Content, redactor_of

HOSTED = "https://api.smith.langchain.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class LangSmithSettings:
    """Where and how traces go to LangSmith.

    Attributes:
        endpoint: of the service, or of one that is hosted elsewhere. api_key: empty where none is needed.
        project: what experiments' names begin with. sampling_rate: the share of trials that is sent.
    """

    endpoint: str
    api_key: str
    workspace: str | None
    project: str | None
    sampling_rate: float
    content: Content

    @classmethod
    def of(cls, env: Mapping[str, str], project: str | None = None) -> LangSmithSettings:
        """From LANGSMITH_* (or LANGCHAIN_*) variables; `project` replaces theirs. Raises UsageError."""
        return cls(
            endpoint=(_variable(env, "ENDPOINT") or HOSTED).rstrip("/"),
            api_key=_variable(env, "API_KEY"),
            workspace=_variable(env, "WORKSPACE_ID") or None,
            project=project or _variable(env, "PROJECT") or _variable(env, "SESSION") or None,
            sampling_rate=_rate(env),
            content=Content(
                inputs=not _true(env, "HIDE_INPUTS"),
                outputs=not _true(env, "HIDE_OUTPUTS"),
                redact=redactor_of(env),
            ),
        )

    def require_key(self) -> None:
        """Raises UsageError where the hosted service would refuse."""
        if self.endpoint == HOSTED and not self.api_key:
            raise UsageError(
                "LangSmith wants a key: set LANGSMITH_API_KEY (or LANGSMITH_ENDPOINT, to use your own server)"
            )


def asked_by_environment(env: Mapping[str, str]) -> bool:
    """Whether the SDK's own switch is on."""
    return any(_true(env, name) for name in ("TRACING", "TRACING_V2"))


def capture_content(env: Mapping[str, str]) -> Content:
    """What OpenTelemetry spans may hold: no content, unless the conventions' own switch asks for it."""
    wanted = env.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().lower() == "true"
    return Content(inputs=wanted, outputs=wanted, redact=redactor_of(env))


def require_url(text: str) -> str:
    """An address of a collector. Raises UsageError for what is none."""
    try:
        url = urlsplit(text)
        if url.scheme in ("http", "https") and url.hostname and (url.port is None or url.port > 0):
            return text
    except ValueError:
        pass
    raise UsageError(f"--otel {text!r} is not an address, such as http://localhost:4318")


def _variable(env: Mapping[str, str], name: str) -> str:
    return (env.get(f"LANGSMITH_{name}") or env.get(f"LANGCHAIN_{name}") or "").strip()


def _true(env: Mapping[str, str], name: str) -> bool:
    return _variable(env, name).lower() == "true"


def _rate(env: Mapping[str, str]) -> float:
    text = _variable(env, "TRACING_SAMPLING_RATE")
    try:
        rate = float(text or 1)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise UsageError(f"LANGSMITH_TRACING_SAMPLING_RATE={text!r} is not a share between 0 and 1")
    return rate
