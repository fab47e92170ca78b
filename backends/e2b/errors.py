"""What the E2B SDK raises, as SandboxError: one table, first match wins.

Order matters. "Not running" and "unreachable" are subclasses of the SDK's time-out; authentication and "busy" are no
SandboxExceptions at all; and below the SDK's own classes httpx and the JSON decoder show through.
"""

from __future__ import annotations

import json
import re

import httpx
from connectrpc.errors import ConnectError
from e2b import exceptions as e2b
from e2b_dockerfile_utils import DockerfileSyntaxError

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

NAME = "e2b"

_REFUSED = frozenset({401, 403})
_GATEWAY = frozenset({500, 502, 503, 504})
_STARTING = frozenset({"create"})
_BUILDING = frozenset({"build"})
_MISSING = frozenset({404})
_WRONG = frozenset({400, 409, 422})

TABLE: tuple[Row, ...] = (
    Row(e2b.SandboxNotRunningException, SandboxUnavailable),
    Row(e2b.SandboxUnreachableException, SandboxUnavailable),
    Row(e2b.TimeoutException, SandboxTimeout),
    Row(e2b.AuthenticationException, SandboxAuthError),
    Row(e2b.RateLimitException, SandboxQuotaError),
    Row(e2b.ServiceBusyException, SandboxQuotaError),
    Row(e2b.NotEnoughSpaceException, SandboxDiskFull),
    Row(e2b.SandboxNotFoundException, SandboxUnavailable),
    Row(e2b.FileNotFoundException, SandboxError, retryable=False),
    Row(e2b.InvalidArgumentException, SandboxError, retryable=False),
    Row(e2b.TemplateException, SandboxBuildError),
    Row(e2b.SandboxException, SandboxAuthError, statuses=_REFUSED),
    Row(e2b.SandboxException, SandboxImageNotFound, statuses=_MISSING, operations=_STARTING, retryable=True),
    Row(
        e2b.SandboxException,
        SandboxStartError,
        statuses=_WRONG,
        operations=_STARTING,
        retryable=False,
    ),
    Row(e2b.SandboxException, SandboxUnavailable, statuses=_MISSING),
    Row(e2b.SandboxException, SandboxUnavailable, statuses=_GATEWAY),
    Row(e2b.FileUploadException, SandboxUnavailable),
    Row(e2b.BuildException, SandboxAuthError, statuses=_REFUSED),
    Row(e2b.BuildException, SandboxUnavailable, statuses=_GATEWAY),
    Row(e2b.BuildException, SandboxBuildError),
    Row(DockerfileSyntaxError, SandboxUnsupported),
    Row(httpx.TimeoutException, SandboxTimeout),
    Row(httpx.HTTPError, SandboxUnavailable),
    Row(ConnectError, SandboxUnavailable),
    Row(json.JSONDecodeError, SandboxUnavailable),
    Row(ValueError, SandboxBuildError, operations=_BUILDING),
    Row(TimeoutError, SandboxTimeout),
    Row(OSError, SandboxUnavailable),
)

_FIXES = {
    SandboxAuthError: "; check E2B_API_KEY (https://e2b.dev/dashboard?tab=keys)",
    SandboxUnsupported: "; use `--backend docker`",
}
_STATUS = re.compile(r"(\d{3}): ")


def translate(error: Exception, operation: str, sandbox_id: str | None, *, secret: str | None = None) -> SandboxError:
    """The SandboxError for whatever the SDK raised; a SandboxError passes through."""
    result = failures.translate(
        TABLE, error, backend=NAME, operation=operation, sandbox_id=sandbox_id, status=status_of(error), secret=secret
    )
    if result is not error and type(result) in _FIXES:
        result.args = (f"{result}{_FIXES[type(result)]}",)
    return result


def status_of(error: Exception) -> int | None:
    """The HTTP status of an answer; the SDK's build errors carry it only at the head of their text."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status
    if isinstance(error, e2b.BuildException) and (match := _STATUS.match(str(error))):
        return int(match[1])
    return None
