"""What Daytona and its SDK raise, as SandboxError: one table, first match wins.

The SDK's class and the HTTP status decide. The service has no code for two things, so its own sentence decides
there, and only there: an organisation's exhausted pool (told as 400, 403 or 409 at creation), and an image that its
builder could not pull (told in the reason of a failed build).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import aiohttp
from daytona import (
    DaytonaAuthenticationError,
    DaytonaConnectionError,
    DaytonaError,
    DaytonaQueueTimeoutError,
    DaytonaSpotEvictedError,
    DaytonaTimeoutError,
)
from pydantic import ValidationError

from backends.errors import (
    SandboxAuthError,
    SandboxBuildError,
    SandboxDiskFull,
    SandboxError,
    SandboxImageNotFound,
    SandboxQuotaError,
    SandboxStartError,
    SandboxTimeout,
    SandboxUnavailable,
    SandboxUnsupported,
)

NAME = "daytona"
_SHOWN_CHARS = 500

CREATE = frozenset({"create"})
MAKING = frozenset({"create", "build"})


@dataclass(frozen=True, slots=True)
class Row:
    """One rule: exception classes, statuses and operations it holds for (None: all), and a pattern of the sentence."""

    result: type[SandboxError]
    kinds: tuple[type[BaseException], ...] | None = None
    statuses: frozenset[int] | None = None
    operations: frozenset[str] | None = None
    pattern: str = ""

    def fits(self, error: BaseException, operation: str) -> bool:
        """Whether this rule applies to an exception, or to what caused it."""
        return (
            (self.kinds is None or any(isinstance(cause, self.kinds) for cause in _causes(error)))
            and (self.statuses is None or _status(error) in self.statuses)
            and (self.operations is None or operation in self.operations)
            and re.search(self.pattern, str(error), re.IGNORECASE) is not None
        )


_POOL = r"\blimit (exceeded|reached)|\bquota\b|\bcapacity\b|no available runners?"

TABLE: tuple[Row, ...] = (
    Row(SandboxQuotaError, (DaytonaQueueTimeoutError,)),
    Row(SandboxUnavailable, (DaytonaSpotEvictedError,)),
    Row(SandboxAuthError, statuses=frozenset({401})),
    Row(SandboxAuthError, (DaytonaAuthenticationError,)),
    Row(SandboxQuotaError, statuses=frozenset({429})),
    Row(SandboxQuotaError, statuses=frozenset({400, 402, 403, 409}), operations=MAKING, pattern=_POOL),
    Row(SandboxAuthError, statuses=frozenset({402, 403})),
    Row(SandboxTimeout, statuses=frozenset({408, 504})),
    Row(SandboxUnsupported, statuses=frozenset({400, 413, 422}), operations=MAKING),
    Row(SandboxStartError, statuses=frozenset({404, 409, 410}), operations=CREATE),
    Row(SandboxDiskFull, statuses=frozenset({507})),
    Row(SandboxUnavailable, statuses=frozenset({400, 404, 409, 410, 500, 502, 503})),
    Row(SandboxTimeout, (DaytonaTimeoutError, TimeoutError)),
    Row(SandboxUnavailable, (DaytonaConnectionError, aiohttp.ClientError, OSError)),
    Row(SandboxUnavailable, (ValidationError, ValueError)),  # a reply that is not what the service's schema promises
    Row(SandboxStartError, operations=CREATE),
    Row(SandboxError),
)

_NO_IMAGE = (
    r"pull access denied|repository does not exist|manifest (for \S+ not found|unknown)|no matching manifest"
    r"|failed to resolve (reference|source metadata).+not found"
)


def translate(error: BaseException, *, operation: str, sandbox_id: str | None = None) -> SandboxError:
    """The SandboxError for whatever the SDK raised; a SandboxError passes through."""
    if isinstance(error, SandboxError):
        return error
    row = next(row for row in TABLE if row.fits(error, operation))
    if isinstance(error, TimeoutError) and not str(error):
        said = "no answer within the deadline"
    else:
        said = _sentence(error)
    text = f"daytona {operation}: {said}"
    if row.result is SandboxAuthError:
        text += "; check DAYTONA_API_KEY (or DAYTONA_JWT_TOKEN and DAYTONA_ORGANIZATION_ID) and its permissions"
    return row.result(text, backend=NAME, operation=operation, sandbox_id=sandbox_id)


def build_failure(reason: str | None, *, log: str = "", sandbox_id: str | None = None) -> SandboxError:
    """The error for an image that the service says it could not build, by the reason it gives."""
    said = (reason or "no reason given").strip()[-_SHOWN_CHARS:]
    text = f"daytona build: {said}"
    if re.search(_NO_IMAGE, said, re.IGNORECASE | re.DOTALL):
        return SandboxImageNotFound(text, backend=NAME, operation="build", sandbox_id=sandbox_id)
    return SandboxBuildError(text, log=log or said, backend=NAME, sandbox_id=sandbox_id)


def retry_after(error: BaseException) -> float | None:
    """Seconds that the service asks to wait, where it does."""
    headers = error.headers if isinstance(error, DaytonaError) else {}
    for name, value in headers.items():
        if name.lower() == "retry-after":
            try:
                return max(0.0, float(value))
            except ValueError:
                return None
    return None


def is_gone(error: BaseException) -> bool:
    """Whether the service says that the sandbox it was asked about does not exist."""
    return _status(error) in {404, 410}


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and what caused it, outermost first; the SDK wraps what it cannot name in its base class."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__


def _status(error: BaseException) -> int | None:
    for cause in _causes(error):
        status = cause.status_code if isinstance(cause, DaytonaError) else getattr(cause, "status", None)
        if isinstance(status, int) and status >= 400:
            return status
    return None


def _sentence(error: BaseException) -> str:
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= _SHOWN_CHARS else words[:_SHOWN_CHARS] + "..."
