"""What of a trace's content leaves the machine: hidden where asked for, without secrets, and within bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness import strict_json
from harness.redaction import Redactor, is_secret_name
from harness.tracing.spans import Span

MAX_TEXT = 32_000
"""Characters of one text; what is longer is cut in the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Whether inputs and outputs are sent, and what takes secrets out of all that is sent."""

    inputs: bool = True
    outputs: bool = True
    redact: Callable[[str], str] = field(default_factory=Redactor)

    def of(self, span: Span) -> Span:
        """The span as it may leave."""
        clean = self._clean
        return replace(
            span,
            name=clean(span.name),
            inputs=clean(span.inputs) if self.inputs else {},
            outputs=clean(span.outputs) if self.outputs else {},
            error_text=clean(span.error_text) if self.outputs else "",
            facts=clean(span.facts),
        )

    def text(self, text: str) -> str:
        """A text as it may leave."""
        return _cut(self.redact(text))

    def _clean(self, value: Any) -> Any:
        return strict_json.clean(value, self.text)[0]


def redactor_of(env: Mapping[str, str]) -> Redactor:
    """Knows the secrets of an environment by their value, and others by their shape."""
    return Redactor(value for name, value in env.items() if is_secret_name(name))


def _cut(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"
