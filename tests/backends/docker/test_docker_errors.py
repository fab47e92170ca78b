"""The table of engine errors, row by row, and an engine that does not answer."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import aiodocker
import pytest

from backends import (
    SandboxAuthError,
    SandboxBuildError,
    SandboxDiskFull,
    SandboxError,
    SandboxImageNotFound,
    SandboxQuotaError,
    SandboxSpec,
    SandboxStartError,
    SandboxTimeout,
    SandboxUnavailable,
    SandboxUnsupported,
)
from backends.docker.engine import Engine, address
from backends.docker.errors import TABLE, from_status, translate
from backends.docker.provider import DockerProvider
from backends.docker.transfer import Transfer

ROWS = [
    (900, "Cannot connect to Docker Engine via unix://x", "start", SandboxUnavailable),
    (500, "write /var/lib/docker/tmp/x: no space left on device", "create", SandboxDiskFull),
    (0, "failed to register layer: write /x: no space left on device", "pull", SandboxDiskFull),
    (429, "too many requests", "pull", SandboxQuotaError),
    (0, "toomanyrequests: You have reached your pull rate limit.", "build", SandboxQuotaError),
    (404, "pull access denied for nosuch, repository does not exist", "pull", SandboxImageNotFound),
    (404, "No such image: nosuch:latest", "image", SandboxImageNotFound),
    (404, "No such image: nosuch:latest", "create", SandboxImageNotFound),
    (0, "pull access denied for nosuch, may require 'docker login'", "build", SandboxImageNotFound),
    (0, "manifest for debian:nope not found: manifest unknown: manifest unknown", "build", SandboxImageNotFound),
    (500, 'Get "https://registry-1.docker.io/v2/": dial tcp: no such host', "pull", SandboxUnavailable),
    (0, "Get https://registry-1.docker.io/v2/: net/http: TLS handshake timeout", "build", SandboxUnavailable),
    (0, "failed to create endpoint x on network bridge: y", "build", SandboxUnavailable),
    (0, "COPY failed: file not found in build context: stat x: file does not exist", "build", SandboxBuildError),
    (400, "dockerfile parse error line 1: unknown instruction: NONSENSE", "build", SandboxBuildError),
    (403, "denied", "pull", SandboxAuthError),
    (500, "could not find an available, non-overlapping IPv4 address pool", "start", SandboxQuotaError),
    (500, 'could not select device driver "" with capabilities: [[gpu]]', "start", SandboxUnsupported),
    (400, 'OCI runtime create failed: exec: "/bin/sh": no such file or directory', "start", SandboxStartError),
    (404, "No such container: x", "execute", SandboxUnavailable),
    (409, "Container x is not running", "execute", SandboxUnavailable),
    (500, "something nobody has seen", "execute", SandboxError),
]  # fmt: skip


@pytest.mark.parametrize(("status", "message", "operation", "expected"), ROWS)
def test_each_answer_of_the_engine_has_one_class(
    status: int, message: str, operation: str, expected: type[SandboxError]
) -> None:
    error = from_status(status, message, operation=operation, sandbox_id="c", log="log")
    assert type(error) is expected
    assert message in str(error)
    assert (error.backend, error.operation, error.sandbox_id) == ("docker", operation, "c")


def test_every_row_of_the_table_is_reached() -> None:
    reached = {
        next(row for row in TABLE if row.fits(status, message, operation)) for status, message, operation, _ in ROWS
    }
    assert reached == set(TABLE)


def test_words_that_a_dockerfile_can_print_do_not_classify() -> None:
    transfer = Transfer("build", "unix:///x", lambda client: iter(()))
    message = "The command '/bin/sh -c echo no space left on device' returned a non-zero code: 1"
    assert type(transfer._failure({"code": 1, "message": message}, message, "log")) is SandboxBuildError


def test_what_client_libraries_raise_is_translated() -> None:
    assert (
        type(translate(aiodocker.DockerError(404, "No such container: x"), operation="execute")) is SandboxUnavailable
    )
    assert type(translate(ConnectionResetError(), operation="execute")) is SandboxUnavailable
    assert type(translate(TimeoutError(), operation="start")) is SandboxTimeout


@pytest.mark.parametrize(
    ("given", "expected"),
    [("unix:///x/y.sock", "unix:///x/y.sock"), ("tcp://h:1", "tcp://h:1"), (None, "unix:///from/env.sock")],
)
def test_the_address_is_the_argument_or_docker_host(
    monkeypatch: pytest.MonkeyPatch, given: str | None, expected: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///from/env.sock")
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    assert address(given) == expected


@pytest.mark.parametrize("bad", ["ssh://host", "nonsense", "unix://"])
def test_an_address_we_cannot_speak_to_is_named(bad: str) -> None:
    with pytest.raises(SandboxUnsupported, match="set DOCKER_HOST"):
        address(bad)


async def test_without_an_engine_the_check_says_what_to_do_and_calls_fail_fast(tmp_path: Path) -> None:
    provider = DockerProvider(host=f"unix://{tmp_path}/none.sock")
    readiness = await provider.check()
    assert not readiness.works and readiness.fix is not None
    assert "DOCKER_HOST" in readiness.fix
    begun = time.monotonic()
    with pytest.raises(SandboxUnavailable):
        await provider.start(SandboxSpec(image="x"))
    with pytest.raises(SandboxUnavailable):
        await provider.list()
    (tmp_path / "Dockerfile").write_text("FROM x\n")
    with pytest.raises(SandboxUnavailable):
        await provider.start(SandboxSpec(build_dir=tmp_path))
    assert time.monotonic() - begun < 20
    await provider.close()


async def test_an_engine_that_comes_back_is_used_again_and_one_that_hangs_misses_its_deadline(tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    hang, release = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (await reader.readline()) not in (b"", b"\r\n"):
            pass
        if not hang.is_set():
            body = json.dumps({"ApiVersion": "1.41", "Version": "20.10"}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
            writer.write(body)
            await writer.drain()
        else:
            await release.wait()
        writer.close()

    engine = Engine(f"unix://{path}")

    async def ask() -> str:
        async with engine.call("version", timeout=0.5) as client:
            return str((await client.version())["Version"])

    with pytest.raises(SandboxUnavailable):
        await ask()
    server = await asyncio.start_unix_server(serve, path)
    assert await ask() == "20.10"
    hang.set()
    await engine.close()
    with pytest.raises(SandboxTimeout):
        await ask()
    hang.clear()
    assert await ask() == "20.10"
    await engine.close()
    release.set()
    server.close()
    await asyncio.sleep(0.1)
