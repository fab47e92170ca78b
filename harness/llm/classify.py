"""What a failed request means: decided by status and structured code, by the text only where servers give no code.

Only the endpoint's own error bodies are read here, never what a model wrote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness import errors
from harness.llm.protocol import ContextOverflow

_OVERFLOW_CODES = {"context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded"}
_OVERFLOW_TEXTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # vLLM
        r"(?:'?max_(?:completion_)?tokens'? .{0,80}too large.{0,120})?this model's maximum context length is \d+",
        r"the (?:decoder |engine )?prompt \(.{0,40}\) is longer than the maximum model length",
        r"you passed \d+ input tokens .{0,120}context length is only \d+",
        # SGLang
        r"the input \(\d+ tokens\) is longer than the model's context length",
        r"input length \(\d+ tokens\) exceeds the maximum allowed length",
        r"requested token count exceeds the model's maximum context length",
        # llama.cpp and its Python server
        r"(?:the )?request (?:\(\d+ tokens\) )?exceeds the available context size",
        r"requested tokens \(\d+\) exceed context window of \d+",
    )
)
_OVERLOAD = {429, 503, 529}
_PASSING = {408, 425, 500, 502, 504, *range(520, 528)}
_MAX_DETAIL = 300


@dataclass(frozen=True, slots=True)
class Failure:
    """The error to raise, and whether the same request may work later."""

    error: errors.ModelError | ContextOverflow
    transient: bool


def of_status(status: int, body: object) -> Failure:
    """What an answer with an error status means. `body` is the parsed error, or whatever stood in its place."""
    code, kind, message = _fields(body)
    detail = f"HTTP {status}" + (f": {message[:_MAX_DETAIL]}" if message else "")
    if {code, kind} & _OVERFLOW_CODES or (status in (400, 413, 422) and _says_overflow(message)):
        return Failure(ContextOverflow(detail), False)
    if status == 402 or "insufficient_quota" in (code, kind):
        return Failure(errors.ModelQuotaExhausted(f"the account has no credit left ({detail})"), False)
    if status in (401, 403):
        return Failure(errors.ModelAuthError(f"the endpoint refused the credentials ({detail})"), False)
    if status in _OVERLOAD:
        return Failure(errors.ModelRateLimited(f"the endpoint is limiting or overloaded ({detail})"), True)
    if status in _PASSING:
        return Failure(errors.ModelUnavailable(f"the endpoint failed ({detail})"), True)
    if status >= 500:
        return Failure(errors.ModelUnavailable(f"the endpoint failed ({detail})"), False)
    return Failure(errors.ModelRejected(f"the endpoint rejected the request ({detail})"), False)


def of_stream_error(body: object) -> Failure:
    """What an error that arrives inside a stream means: as its code says; without a known one it is a cut stream."""
    code, kind, message = _fields(body)
    status = int(code) if code.isdecimal() and len(code) == 3 else 400
    if code.isdecimal() or {code, kind} & (_OVERFLOW_CODES | {"insufficient_quota"}) or _says_overflow(message):
        return of_status(status, body)
    if "rate_limit" in code or "rate_limit" in kind or "overloaded" in kind:
        return of_status(429, body)
    return Failure(errors.ModelUnavailable(f"the stream ended with an error: {message[:_MAX_DETAIL]}"), True)


def _says_overflow(message: str) -> bool:
    return any(pattern.match(message) for pattern in _OVERFLOW_TEXTS)


def _fields(body: object) -> tuple[str, str, str]:
    """Code, type and message, whether or not the server wraps them in `error`."""
    if isinstance(body, Mapping):
        inner: Any = body.get("error", body)
        if isinstance(inner, Mapping):
            return tuple(str(inner.get(key) or "") for key in ("code", "type", "message"))  # type: ignore[return-value]
        return "", "", str(inner)
    return "", "", body if isinstance(body, str) else ""
