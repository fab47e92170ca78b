"""What Daytona and its SDK raise, as SandboxError: one table, first match wins.

The SDK's class and the HTTP status decide. The service has no code for two things, so its own sentence decides
there, and only there: an organisation's exhausted pool (told as 400, 403 or 409 at creation), and an image that its
builder could not pull (told in the reason of a failed build).
"""

from __future__ import annotations

import re

import aiohttp
import httpx
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
from backends.remote import failures
from backends.remote.failures import Row

NAME = "daytona"

_CREATE = frozenset({"create"})
_BUILD = frozenset({"build"})
_MAKING = _CREATE | _BUILD
_REFUSED = frozenset({400, 402, 403, 409})
_EXHAUSTED = ("limit exceeded", "limit reached", "quota", "capacity", "no available runner")


def _any_error(
    result: type[SandboxError], *statuses: int, operations: frozenset[str] | None = None, says: str | None = None
) -> Row:
    return Row(Exception, result, frozenset(statuses), operations, says=says)


TABLE: tuple[Row, ...] = (
    Row(DaytonaQueueTimeoutError, SandboxQuotaError),
    Row(DaytonaSpotEvictedError, SandboxUnavailable),
    Row(DaytonaAuthenticationError, SandboxAuthError),
    _any_error(SandboxAuthError, 401),
    _any_error(SandboxQuotaError, 429),
    *(_any_error(SandboxQuotaError, *_REFUSED, operations=_MAKING, says=sentence) for sentence in _EXHAUSTED),
    _any_error(SandboxAuthError, 402, 403),
    _any_error(SandboxTimeout, 408, 504),
    _any_error(SandboxDiskFull, 507),
    _any_error(SandboxUnsupported, 400, 413, 422, operations=_MAKING),
    _any_error(SandboxStartError, 404, 409, 410, operations=_CREATE),
    # Our requests are always of the same form: a 400 to one of them means a sandbox that does not run (any more).
    _any_error(SandboxUnavailable, 400, 404, 409, 410, 500, 502, 503),
    Row(DaytonaTimeoutError, SandboxTimeout),
    Row(httpx.TimeoutException, SandboxTimeout),
    Row(TimeoutError, SandboxTimeout),
    Row(FileNotFoundError, SandboxBuildError, operations=_BUILD),
    Row(DaytonaConnectionError, SandboxUnavailable),
    Row(aiohttp.ClientError, SandboxUnavailable),
    Row(httpx.TransportError, SandboxUnavailable),
    Row(OSError, SandboxUnavailable),
    # A reply that is not what the service's own schema promises.
    Row(ValidationError, SandboxUnavailable),
    Row(ValueError, SandboxUnavailable),
    Row(DaytonaError, SandboxStartError, operations=_CREATE),
)

_NO_IMAGE = (
    r"pull access denied|repository does not exist|manifest (for \S+ not found|unknown)|no matching manifest"
    r"|failed to resolve (reference|source metadata).+not found"
)


def translate(
    error: Exception, operation: str, sandbox_id: str | None = None, *, secret: str | None = None
) -> SandboxError:
    """The SandboxError for whatever the SDK raised; a SandboxError passes through."""
    return failures.translate(
        TABLE,
        _unwrapped(error),
        backend=NAME,
        operation=operation,
        sandbox_id=sandbox_id,
        status=status_of(error),
        retry_after=_retry_after(error),
        secret=secret,
    )


def build_failure(reason: str | None, *, sandbox_id: str | None = None) -> SandboxError:
    """The error for an image that the service says it could not build, by the reason it gives."""
    said = (reason or "the service gave no reason").strip()
    text = f"{NAME} build: {' '.join(said[-500:].split())}"
    if re.search(_NO_IMAGE, said, re.IGNORECASE | re.DOTALL):
        return SandboxImageNotFound(text, backend=NAME, operation="build", sandbox_id=sandbox_id)
    return SandboxBuildError(text, log=said, backend=NAME, sandbox_id=sandbox_id)


def is_gone(error: Exception) -> bool:
    """Whether the service says that what it was asked about does not exist."""
    return status_of(error) in {404, 410}


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an error of the SDK, or what caused it, stands for."""
    cause: BaseException | None = error
    while cause is not None:
        status = getattr(cause, "status_code", None) or getattr(cause, "status", None)
        if isinstance(status, int) and status >= 400:
            return status
        cause = cause.__cause__
    return None


def _retry_after(error: BaseException) -> float | None:
    """What the service asks for in `Retry-After`, or in `Retry-After-<the limit that was met>`: whole seconds."""
    cause: BaseException | None = error
    while cause is not None:
        for name, value in (getattr(cause, "headers", None) or {}).items():
            if str(name).lower().startswith("retry-after") and str(value).isdecimal():
                return float(value)
        cause = cause.__cause__
    return None


def _unwrapped(error: Exception) -> Exception:
    """The SDK wraps what it has no name for in its base class; the cause says more."""
    while type(error) is DaytonaError and isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error
