"""A loopback control plane, a provider that the SDK's own environment variables point at it, and specs for both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import daytona._async.object_storage as storage
import pytest
from controlplanes.daytona import DaytonaPlane, daytona_plane
from controlplanes.plain_storage import plain_store

from backends import SandboxSpec, open_sandbox
from backends.daytona.provider import DaytonaProvider
from backends.remote.sandbox import RemoteSandbox

Start = Callable[..., Awaitable[RemoteSandbox]]


@pytest.fixture
async def plane(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DaytonaPlane]:
    async with daytona_plane() as running:
        for name in ("DAYTONA_JWT_TOKEN", "DAYTONA_ORGANIZATION_ID"):
            monkeypatch.delenv(name, raising=False)
        for name, value in running.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(storage, "S3Store", plain_store)
        yield running


@pytest.fixture
async def provider(plane: DaytonaPlane) -> AsyncIterator[DaytonaProvider]:
    made = DaytonaProvider()
    yield made
    await made.close()


@pytest.fixture
def build_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "environment"
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM debian:bookworm-slim\nWORKDIR /app\n")
    return folder


@pytest.fixture
async def start(provider: DaytonaProvider) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def begin(**changes: Any) -> RemoteSandbox:
            options: dict[str, Any] = {"image": "debian:bookworm-slim", "workdir": "/app", "ttl_sec": 120, **changes}
            if "build_dir" in options:
                del options["image"]
            sandbox = await stack.enter_async_context(open_sandbox(provider, SandboxSpec(**options)))
            assert isinstance(sandbox, RemoteSandbox)
            return sandbox

        yield begin
