"""The failure table, row by row: what the SDK raises, and what it becomes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from grpclib import GRPCError, Status
from grpclib.exceptions import StreamTerminatedError
from modal import exception as sdk
from modal._grpc_client import grpc_error_to_modal_exception

from backends import errors
from backends.modal.errors import TABLE, _build_status, translate


def grpc(status: Status) -> Callable[[], Exception]:
    """What the SDK makes of a gRPC status."""

    def make() -> Exception:
        made = grpc_error_to_modal_exception(GRPCError(status, "said"))
        assert isinstance(made, Exception)
        return made

    return make


def build(words: str) -> Callable[[], Exception]:
    return lambda: sdk.ImageBuildError(f"Image build for im-1 {words}", "im-1")


AUTH, QUOTA, GONE = errors.SandboxAuthError, errors.SandboxQuotaError, errors.SandboxUnavailable
UNSUPPORTED, START, TIMEOUT = errors.SandboxUnsupported, errors.SandboxStartError, errors.SandboxTimeout
BUILD, NO_IMAGE = errors.SandboxBuildError, errors.SandboxImageNotFound

CASES: list[tuple[str, Callable[[], Exception], type[errors.SandboxError]]] = [
    *[(operation, grpc(Status.UNAUTHENTICATED), AUTH) for operation in ("connect", "start", "pull", "execute")],
    ("connect", lambda: sdk.AuthError("Token missing."), AUTH),
    ("start", grpc(Status.PERMISSION_DENIED), AUTH),
    *[(operation, grpc(Status.RESOURCE_EXHAUSTED), QUOTA) for operation in ("start", "build", "execute", "list")],
    ("build", build("timed out. Please try again with a larger `timeout` parameter."), TIMEOUT),
    ("pull", build("terminated due to external shut-down. Please try again."), GONE),
    ("pull", build("failed.\nView the build logs:"), NO_IMAGE),
    ("build", build("failed.\nView the build logs:"), BUILD),
    ("build", build("failed with the exception:\nImage build for im-1 timed out"), BUILD),
    ("pull", grpc(Status.NOT_FOUND), NO_IMAGE),
    ("build", grpc(Status.ABORTED), GONE),
    ("build", grpc(Status.INVALID_ARGUMENT), BUILD),
    ("build", lambda: sdk.VersionError("image builder versions"), UNSUPPORTED),
    ("start", grpc(Status.FAILED_PRECONDITION), START),
    ("start", grpc(Status.ABORTED), START),
    ("start", grpc(Status.INVALID_ARGUMENT), UNSUPPORTED),
    ("start", grpc(Status.OUT_OF_RANGE), UNSUPPORTED),
    ("start", grpc(Status.UNIMPLEMENTED), UNSUPPORTED),
    ("start", grpc(Status.NOT_FOUND), START),
    ("start", grpc(Status.ALREADY_EXISTS), START),
    ("execute", grpc(Status.NOT_FOUND), GONE),
    ("execute", grpc(Status.FAILED_PRECONDITION), GONE),
    ("execute", sdk.SandboxTimeoutError, GONE),
    ("execute", sdk.SandboxTerminatedError, GONE),
    ("execute", lambda: sdk.ExecTimeoutError("Deadline exceeded"), TIMEOUT),
    ("build", lambda: sdk.MountUploadTimeoutError("Mounting timed out"), TIMEOUT),
    ("execute", TimeoutError, TIMEOUT),
    *[
        ("execute", grpc(status), GONE)
        for status in (Status.UNAVAILABLE, Status.UNKNOWN, Status.CANCELLED, Status.DEADLINE_EXCEEDED)
    ],
    ("start", grpc(Status.UNAVAILABLE), GONE),
    ("start", grpc(Status.INTERNAL), GONE),
    ("execute", lambda: sdk.InternalFailure("retry"), GONE),
    ("execute", grpc(Status.DATA_LOSS), GONE),
    ("connect", lambda: sdk.ConnectionError("Could not connect to the Modal server."), GONE),
    ("execute", lambda: sdk.ClientClosed("detached"), GONE),
    ("execute", lambda: StreamTerminatedError("Connection lost"), GONE),
    ("execute", lambda: GRPCError(Status.INTERNAL, "raw"), GONE),
    ("execute", lambda: ConnectionError("the worker's router"), GONE),
    ("execute", lambda: ValueError("what nobody foresaw"), errors.SandboxError),
]


@pytest.mark.parametrize(("operation", "raised", "expected"), CASES)
def test_what_the_sdk_raises_becomes_one_class(
    operation: str, raised: Callable[[], Exception], expected: type[errors.SandboxError]
) -> None:
    found = translate(raised(), operation, "sb-1")
    assert type(found) is expected
    assert (found.backend, found.operation, found.sandbox_id) == ("modal", operation, "sb-1")
    assert found.retryable is expected.retryable
    assert "\n" not in str(found)


def test_every_row_decides_some_case() -> None:
    deciding = set()
    for operation, raised, _ in CASES:
        error = raised()
        deciding.add(next((n for n, row in enumerate(TABLE) if row.fits(error, _build_status(error), operation)), None))
    assert deciding == {None, *range(len(TABLE))}


def test_the_log_of_a_failed_build_is_kept() -> None:
    found = translate(build("failed with the exception:\nstep 3: no such file")(), "build")
    assert isinstance(found, errors.SandboxBuildError)
    assert found.log.endswith("step 3: no such file")


def test_what_is_to_be_done_is_said_with_the_error() -> None:
    assert "MODAL_TOKEN_ID" in str(translate(sdk.AuthError("no"), "start"))
    assert "--max-sandboxes" in str(translate(sdk.ResourceExhaustedError("no"), "start"))


def test_the_secret_never_gets_into_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODAL_TOKEN_SECRET", "as-very-secret")
    found = translate(sdk.AuthError("as-very-secret is not a token"), "connect")
    assert "as-very-secret" not in str(found)


def test_an_error_of_ours_passes_through() -> None:
    ours = errors.SandboxTimeout("late")
    assert translate(ours, "start") is ours
