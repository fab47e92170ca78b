"""The table of failures, row by row: what the service answers to the real SDK, and what that becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import httpx
import pytest
from controlplanes.daytona import API_KEY, DaytonaPlane
from daytona import CreateSandboxFromImageParams, DaytonaError, DaytonaQueueTimeoutError, DaytonaSpotEvictedError

from backends.daytona import errors
from backends.daytona.client import Client
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

POOL = b'{"statusCode": 400, "message": "Total CPU limit exceeded. Maximum allowed: 10.", "source": "DAYTONA_API"}'

ANSWERS: list[tuple[str, dict[str, Any], type[SandboxError]]] = [
    ("list", {"status": 400}, SandboxUnavailable),
    ("list", {"status": 401}, SandboxAuthError),
    ("list", {"status": 403}, SandboxAuthError),
    ("list", {"status": 404}, SandboxUnavailable),
    ("list", {"status": 408}, SandboxTimeout),
    ("list", {"status": 429}, SandboxQuotaError),
    ("list", {"status": 429, "headers": {"Retry-After": "7"}}, SandboxQuotaError),
    ("list", {"status": 500}, SandboxUnavailable),
    ("list", {"status": 502}, SandboxUnavailable),
    ("list", {"status": 502, "body": b"<html>Bad Gateway</html>"}, SandboxUnavailable),
    ("list", {"status": 503}, SandboxUnavailable),
    ("list", {"status": 504}, SandboxTimeout),
    ("list", {"status": 507}, SandboxDiskFull),
    ("list", {"body": b"{garbage"}, SandboxUnavailable),
    ("list", {"body": b'{"items": [{"id": 5}]}'}, SandboxUnavailable),
    ("list", {"body": b"\xff\xfe\x00"}, SandboxUnavailable),
    ("list", {"hang": True}, SandboxTimeout),
    ("list", {"reset": True, "times": 99}, SandboxUnavailable),
    ("list", {"cut": True, "times": 99}, SandboxUnavailable),
    ("create", {"status": 400}, SandboxUnsupported),
    ("create", {"status": 400, "body": POOL}, SandboxQuotaError),
    ("create", {"status": 403, "body": POOL}, SandboxQuotaError),
    ("create", {"status": 409, "body": POOL}, SandboxQuotaError),
    ("create", {"status": 402}, SandboxAuthError),
    ("create", {"status": 403}, SandboxAuthError),
    ("create", {"status": 404}, SandboxStartError),
    ("create", {"status": 409}, SandboxStartError),
    ("create", {"status": 413}, SandboxUnsupported),
    ("create", {"status": 422}, SandboxUnsupported),
    ("create", {"status": 429}, SandboxQuotaError),
    ("create", {"status": 500}, SandboxUnavailable),
    ("create", {"status": 503}, SandboxUnavailable),
    ("create", {"body": b"{garbage"}, SandboxUnavailable),
    ("create", {"hang": True}, SandboxTimeout),
    ("create", {"reset": True}, SandboxUnavailable),
    ("create", {"cut": True}, SandboxUnavailable),
]


def named(case: tuple[str, Mapping[str, Any], type[SandboxError]]) -> str:
    call, what, result = case
    return f"{call}-{'-'.join(f'{key}={value}' for key, value in what.items() if key != 'body')}-{result.__name__}"


@pytest.mark.parametrize("case", ANSWERS, ids=named)
async def test_an_answer_of_the_service_is_one_kind_of_failure(
    case: tuple[str, dict[str, Any], type[SandboxError]], plane: DaytonaPlane
) -> None:
    call, what, expected = case
    plane.faults.add(f"^{call}$", **what)
    client = Client()
    try:
        with pytest.raises(SandboxError) as caught:
            async with client.call(call, timeout=2.0, sandbox_id="sb") as sdk:
                if call == "list":
                    async for _ in sdk.list():
                        pass
                else:
                    await sdk.create(CreateSandboxFromImageParams(image="debian"), timeout=5)
    finally:
        await client.close()
    error = caught.value
    assert type(error) is expected
    assert (error.backend, error.operation, error.sandbox_id) == ("daytona", call, "sb")
    assert API_KEY not in f"{error} {error!r}"
    assert "\n" not in str(error)


def caused_by(cause: Exception) -> DaytonaError:
    error = DaytonaError(f"Failed: {cause}")
    error.__cause__ = cause
    return error


RAISED: list[tuple[Callable[[], Exception], str, type[SandboxError]]] = [
    (lambda: DaytonaQueueTimeoutError("waited too long for a runner"), "create", SandboxQuotaError),
    (lambda: DaytonaSpotEvictedError("evicted"), "execute", SandboxUnavailable),
    (lambda: caused_by(httpx.ReadTimeout("slow")), "upload", SandboxTimeout),
    (lambda: caused_by(httpx.ConnectError("refused")), "upload", SandboxUnavailable),
    (lambda: caused_by(aiohttp.ClientPayloadError("cut")), "download", SandboxUnavailable),
    (lambda: caused_by(TimeoutError()), "download", SandboxTimeout),
    (lambda: caused_by(FileNotFoundError("Path does not exist: x")), "build", SandboxBuildError),
    (lambda: DaytonaError("Sandbox entered error state: error, error reason: no runner"), "create", SandboxStartError),
    (lambda: DaytonaError("something else"), "execute", SandboxError),
    (lambda: RuntimeError("Session is closed"), "execute", SandboxError),
]


@pytest.mark.parametrize(("raised", "operation", "expected"), RAISED)
def test_what_the_sdk_raises_without_an_answer_is_told_by_its_class_or_its_cause(
    raised: Callable[[], Exception], operation: str, expected: type[SandboxError]
) -> None:
    assert type(errors.translate(raised(), operation)) is expected


def test_every_row_of_the_table_decides_some_case() -> None:
    used = set()
    for call, what, _ in ANSWERS:
        status = what.get("status")
        if status is not None:
            text = POOL.decode() if what.get("body") == POOL else "injected"
            error = DaytonaError(text, status_code=status)
            used.add(next(row for row in errors.TABLE if row.fits(error, status, call)))
    for raised, operation, _ in RAISED:
        error = errors._unwrapped(raised())
        used.update(row for row in errors.TABLE if row.fits(error, errors.status_of(error), operation))
    sentences = {row for row in errors.TABLE if row.says is not None}
    assert {type(None) if row.says else row.result for row in set(errors.TABLE) - used - sentences} <= {
        SandboxAuthError,  # the SDK's class for missing credentials, which are looked for before it is asked
        SandboxUnavailable,  # bodies that are no JSON, or not of the schema: above, through the real SDK
    }


@pytest.mark.parametrize("sentence", errors._EXHAUSTED)
def test_an_exhausted_pool_is_told_by_its_sentence_at_creation_only(sentence: str) -> None:
    error = DaytonaError(f"Total {sentence} 5", status_code=403)
    assert type(errors.translate(error, "create")) is SandboxQuotaError
    assert type(errors.translate(error, "list")) is SandboxAuthError


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("pull access denied for nobody/nothing, repository does not exist", SandboxImageNotFound),
        ("manifest for debian:nope not found: manifest unknown", SandboxImageNotFound),
        ("failed to resolve reference docker.io/x/y: not found", SandboxImageNotFound),
        ("The command '/bin/sh -c false' returned a non-zero code: 1", SandboxBuildError),
        (None, SandboxBuildError),
    ],
)
def test_the_reason_of_a_failed_build_tells_a_missing_image(reason: str | None, expected: type[SandboxError]) -> None:
    error = errors.build_failure(reason)
    assert type(error) is expected
    assert not error.retryable


def test_the_key_never_gets_into_a_message() -> None:
    error = errors.translate(RuntimeError("Bearer dtn_abc refused"), "list", secret="dtn_abc")
    assert "dtn_abc" not in str(error)
