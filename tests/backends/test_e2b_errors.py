"""The table of failures, row by row, with the exceptions that the SDK really raises."""

from __future__ import annotations

import json
import pickle
from typing import Any

import httpx
import pytest
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from e2b import exceptions as e2b
from e2b_dockerfile_utils import DockerfileSyntaxError

from backends import errors as sandbox
from backends.e2b.errors import TABLE, translate


def api(status: int) -> e2b.SandboxException:
    return e2b.SandboxException(f"{status}: nope", status_code=status)


ROWS: list[tuple[Exception, str, type[sandbox.SandboxError], bool]] = [
    (e2b.SandboxNotRunningException("x"), "execute", sandbox.SandboxUnavailable, True),
    (e2b.SandboxUnreachableException("x"), "execute", sandbox.SandboxUnavailable, True),
    (e2b.TimeoutException("x"), "execute", sandbox.SandboxTimeout, True),
    (e2b.AuthenticationException("x"), "create", sandbox.SandboxAuthError, False),
    (e2b.RateLimitException("x"), "create", sandbox.SandboxQuotaError, True),
    (e2b.ServiceBusyException("x"), "create", sandbox.SandboxQuotaError, True),
    (e2b.NotEnoughSpaceException("x"), "upload", sandbox.SandboxDiskFull, False),
    (e2b.SandboxNotFoundException("x"), "renew", sandbox.SandboxUnavailable, True),
    (e2b.FileNotFoundException("x"), "download", sandbox.SandboxError, False),
    (e2b.InvalidArgumentException("x"), "execute", sandbox.SandboxError, False),
    (e2b.TemplateException("x"), "build", sandbox.SandboxBuildError, False),
    (api(401), "create", sandbox.SandboxAuthError, False),
    (api(403), "create", sandbox.SandboxAuthError, False),
    (api(404), "create", sandbox.SandboxImageNotFound, True),
    (api(400), "create", sandbox.SandboxStartError, False),
    (api(404), "remove", sandbox.SandboxUnavailable, True),
    (api(500), "create", sandbox.SandboxUnavailable, True),
    (api(502), "list", sandbox.SandboxUnavailable, True),
    (e2b.FileUploadException("x"), "build", sandbox.SandboxUnavailable, True),
    (e2b.BuildException("403: no"), "build", sandbox.SandboxAuthError, False),
    (e2b.BuildException("502: bad gateway"), "build", sandbox.SandboxUnavailable, True),
    (e2b.BuildException("step 3 failed"), "build", sandbox.SandboxBuildError, False),
    (DockerfileSyntaxError("Multi-stage Dockerfiles are not supported"), "build", sandbox.SandboxUnsupported, False),
    (httpx.ReadTimeout("x"), "create", sandbox.SandboxTimeout, True),
    (httpx.ConnectError("x"), "create", sandbox.SandboxUnavailable, True),
    (ConnectError(Code.UNAVAILABLE, "x"), "execute", sandbox.SandboxUnavailable, True),
    (json.JSONDecodeError("x", "<html>", 0), "create", sandbox.SandboxUnavailable, True),
    (ValueError("no files found in backup/"), "build", sandbox.SandboxBuildError, False),
    (TimeoutError(), "execute", sandbox.SandboxTimeout, True),
    (ConnectionResetError("x"), "execute", sandbox.SandboxUnavailable, True),
]


@pytest.mark.parametrize(
    ("error", "operation", "kind", "retryable"), ROWS, ids=[f"{type(row[0]).__name__}-{row[1]}" for row in ROWS]
)
def test_each_exception_becomes_one_error(
    error: Exception, operation: str, kind: type[sandbox.SandboxError], retryable: bool
) -> None:
    found = translate(error, operation, "sb-1")
    assert (type(found), found.retryable) == (kind, retryable)
    assert (found.backend, found.operation, found.sandbox_id) == ("e2b", operation, "sb-1")
    assert type(pickle.loads(pickle.dumps(found))) is kind
    assert "\n" not in str(found)


def test_every_row_of_the_table_is_met_by_an_example() -> None:
    def row_of(error: Any, operation: str) -> int:
        from backends.e2b.errors import status_of

        return next(number for number, row in enumerate(TABLE) if row.fits(error, status_of(error), operation))

    assert {row_of(error, operation) for error, operation, _, _ in ROWS} == set(range(len(TABLE)))


def test_what_no_row_knows_is_a_plain_sandbox_error() -> None:
    assert type(translate(KeyError("sandboxID"), "create", None)) is sandbox.SandboxError


def test_an_error_of_ours_passes_through_unchanged() -> None:
    error = sandbox.SandboxUnsupported("no", backend="e2b")
    assert translate(error, "create", None) is error


@pytest.mark.case("H5")
def test_the_key_never_gets_into_the_text() -> None:
    found = translate(e2b.AuthenticationException("bad key e2b_secret"), "create", None, secret="e2b_secret")
    assert "e2b_secret" not in str(found)
    assert "check E2B_API_KEY" in str(found)
