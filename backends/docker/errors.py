"""What the engine and its clients raise, as SandboxError: one table, first match wins.

The engine gives a status and one sentence. Text decides only where the status says nothing, only on the engine's
own sentence (anchored at its start where a Dockerfile could write into it), and never on what a command printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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

NAME = "docker"
UNREACHABLE = 900
"""The status that aiodocker gives to a connection that failed."""

STREAMED = 0
"""The status of an error inside a progress stream whose HTTP request succeeded."""

_STARTING = frozenset({"create", "start"})


@dataclass(frozen=True, slots=True)
class Row:
    """One rule: statuses and operations it holds for (None: all), and a pattern of the engine's sentence."""

    result: type[SandboxError]
    statuses: frozenset[int] | None = None
    pattern: str = ""
    operations: frozenset[str] | None = None

    def fits(self, status: int, message: str, operation: str) -> bool:
        """Whether this rule applies."""
        return (
            (self.statuses is None or status in self.statuses)
            and (self.operations is None or operation in self.operations)
            and re.search(self.pattern, message, re.IGNORECASE) is not None
        )


_IMAGES = frozenset({"pull", "build"})
_NETWORK = (
    r'^(error pulling image configuration: )?(Get|Head|Post) "?https?://'
    r"|^(error pulling image configuration|download failed after attempts|failed to register layer: unexpected EOF)"
    r"|^(net/http: |dial tcp |received unexpected HTTP status: 5|unexpected EOF|context deadline exceeded)"
)
_ENGINE = r"^failed to create endpoint |^failed to set up container networking|^failed to create (shim )?task"
TABLE: tuple[Row, ...] = (
    Row(SandboxUnavailable, frozenset({UNREACHABLE})),
    Row(SandboxDiskFull, frozenset({STREAMED, 500}), r"no space left on device|disk quota exceeded"),
    Row(SandboxQuotaError, frozenset({429})),
    Row(SandboxQuotaError, frozenset({STREAMED, 500}), r"^toomanyrequests:", _IMAGES),
    Row(SandboxImageNotFound, frozenset({404}), operations=frozenset({"pull", "image"})),
    Row(SandboxImageNotFound, frozenset({404}), r"no such image", _STARTING),
    Row(
        SandboxImageNotFound,
        frozenset({STREAMED, 500}),
        r"^pull access denied for |^manifest for .+ not found|^manifest unknown|^no matching manifest for ",
        _IMAGES,
    ),
    Row(SandboxUnavailable, frozenset({STREAMED, 500}), _NETWORK, _IMAGES),
    Row(SandboxUnavailable, frozenset({STREAMED, 500}), _ENGINE, frozenset({"build"})),
    Row(SandboxBuildError, operations=frozenset({"build"})),
    Row(SandboxAuthError, frozenset({401, 403})),
    Row(SandboxQuotaError, frozenset({500}), r"address pool", _STARTING),
    Row(SandboxUnsupported, frozenset({400, 500}), r"could not select device driver|storage-opt", _STARTING),
    Row(SandboxStartError, frozenset({400, 404, 409, 500}), operations=_STARTING),
    Row(SandboxUnavailable, frozenset({404, 409, 502, 503})),
    Row(SandboxError),
)

_FIXES: dict[type[SandboxError], str] = {
    SandboxDiskFull: "; free some with `docker system prune`",
    SandboxQuotaError: "; if address pools ran out, `docker network prune` or widen default-address-pools",
}


def from_status(
    status: int, message: str, *, operation: str, sandbox_id: str | None = None, log: str = ""
) -> SandboxError:
    """The error for what the engine answered: its HTTP status (0 inside a stream) and its sentence."""
    row = next(row for row in TABLE if row.fits(status, message, operation))
    text = f"docker {operation}: {message}{_FIXES.get(row.result, '')}"
    if issubclass(row.result, SandboxBuildError):
        return row.result(text, log=log, backend=NAME, operation=operation, sandbox_id=sandbox_id)
    return row.result(text, backend=NAME, operation=operation, sandbox_id=sandbox_id)


def translate(error: Exception, *, operation: str, sandbox_id: str | None = None) -> SandboxError:
    """The SandboxError for whatever a client library raised; a SandboxError passes through."""
    if isinstance(error, SandboxError):
        return error
    if isinstance(error, TimeoutError):
        return SandboxTimeout(
            f"docker {operation}: the engine missed the deadline",
            backend=NAME,
            operation=operation,
            sandbox_id=sandbox_id,
        )
    # aiodocker says `status` and `message`, docker-py says `status_code` and `explanation`.
    status = getattr(error, "status", None) or getattr(error, "status_code", None)
    message = getattr(error, "message", None) or getattr(error, "explanation", None) or str(error)
    if isinstance(status, int):
        return from_status(status, str(message), operation=operation, sandbox_id=sandbox_id)
    return from_status(UNREACHABLE, str(message) or type(error).__name__, operation=operation, sandbox_id=sandbox_id)
