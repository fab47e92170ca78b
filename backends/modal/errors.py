"""What the Modal SDK raises, as SandboxError: one table, first match wins.

Every gRPC status arrives as a class of `modal.exception`, so the class decides. A failed image build is one class
whatever ended it; what ended it is read as a status from the SDK's own words at the very start of its sentence, where
nothing that a build printed can stand.
"""

from __future__ import annotations

import re

from grpclib.exceptions import GRPCError, StreamTerminatedError
from modal import exception as sdk
from modal.config import config

from backends.errors import (
    SandboxAuthError,
    SandboxBuildError,
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

NAME = "modal"

CREDENTIALS_FIX = "set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or run `modal token new`, which writes ~/.modal.toml"

FAILED, TERMINATED, TIMED_OUT = 2, 3, 4
"""How an image build ended, numbered as Modal numbers its results."""

PULL, BUILD, START = frozenset({"pull"}), frozenset({"build"}), frozenset({"start"})
_IMAGES = PULL | BUILD

TABLE: tuple[Row, ...] = (
    # Who we are, and how much of it we may do.
    Row(sdk.AuthError, SandboxAuthError),  # UNAUTHENTICATED, or no token at all
    Row(sdk.PermissionDeniedError, SandboxAuthError),  # PERMISSION_DENIED
    Row(sdk.ResourceExhaustedError, SandboxQuotaError),  # RESOURCE_EXHAUSTED
    # Images.
    Row(sdk.ImageBuildError, SandboxTimeout, statuses=frozenset({TIMED_OUT})),
    Row(sdk.ImageBuildError, SandboxUnavailable, statuses=frozenset({TERMINATED})),
    Row(sdk.ImageBuildError, SandboxImageNotFound, operations=PULL),  # a build of nothing but FROM
    Row(sdk.ImageBuildError, SandboxBuildError),
    Row(sdk.NotFoundError, SandboxImageNotFound, operations=PULL),
    Row(sdk.ConflictError, SandboxUnavailable, operations=_IMAGES),  # ABORTED, FAILED_PRECONDITION
    Row(sdk.InvalidError, SandboxBuildError, operations=_IMAGES),  # INVALID_ARGUMENT: no such Dockerfile can be built
    Row(sdk.VersionError, SandboxUnsupported),  # this SDK and the workspace's image builder do not go together
    # Starting. A request that is refused as such would be refused again.
    Row(sdk.ConflictError, SandboxStartError, operations=START),
    Row(sdk.InvalidError, SandboxUnsupported, operations=START),
    Row(sdk.UnimplementedError, SandboxUnsupported, operations=START),
    Row(sdk.NotFoundError, SandboxStartError, operations=START),  # the app or the image went away meanwhile
    Row(sdk.AlreadyExistsError, SandboxStartError, operations=START),
    # A live sandbox that is no more: ended, evicted, or its worker lost.
    Row(sdk.NotFoundError, SandboxUnavailable),
    Row(sdk.ConflictError, SandboxUnavailable),
    Row(sdk.SandboxTimeoutError, SandboxUnavailable),
    Row(sdk.SandboxTerminatedError, SandboxUnavailable),
    # Time.
    Row(sdk.TimeoutError, SandboxTimeout),
    Row(TimeoutError, SandboxTimeout),
    # The way there, and the service at its end.
    Row(sdk.ServiceError, SandboxUnavailable),  # UNAVAILABLE, UNKNOWN, CANCELLED, DEADLINE_EXCEEDED
    Row(sdk.InternalError, SandboxUnavailable),  # INTERNAL
    Row(sdk.InternalFailure, SandboxUnavailable),
    Row(sdk.DataLossError, SandboxUnavailable),  # DATA_LOSS
    Row(sdk.ConnectionError, SandboxUnavailable),
    Row(sdk.ClientClosed, SandboxUnavailable),
    Row(StreamTerminatedError, SandboxUnavailable),  # reset in the middle of a stream
    Row(GRPCError, SandboxUnavailable),
    Row(OSError, SandboxUnavailable),  # a worker's router raises the builtin ConnectionError
)

_FIXES: dict[type[SandboxError], str] = {
    SandboxAuthError: f"; {CREDENTIALS_FIX}",
    SandboxQuotaError: "; lower --max-sandboxes, or have the workspace's limits raised",
}
_ENDINGS = {"terminated due to external shut-down": TERMINATED, "timed out": TIMED_OUT}


def translate(error: Exception, operation: str, sandbox_id: str | None = None) -> SandboxError:
    """The SandboxError for whatever the SDK raised; a SandboxError passes through."""
    if isinstance(error, SandboxError):
        return error
    result = failures.translate(
        TABLE,
        error,
        backend=NAME,
        operation=operation,
        sandbox_id=sandbox_id,
        status=_build_status(error),
        secret=config.get("token_secret"),
    )
    if isinstance(result, SandboxBuildError):
        result.log = str(error)
    fix = _FIXES.get(type(result))
    if fix is not None:
        result.args = (f"{result}{fix}",)
    return result


def _build_status(error: Exception) -> int | None:
    if not isinstance(error, sdk.ImageBuildError):
        return None
    said = re.match(r"Image build for \S+ (terminated due to external shut-down|timed out)", str(error))
    return _ENDINGS[said[1]] if said else FAILED
