"""A provider for the real engine, and sandboxes that are stopped whatever a test does."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from left_out import leave_out

from backends import SandboxSpec, open_sandbox
from backends.docker.provider import DockerProvider
from backends.docker.sandbox import DockerSandbox

IMAGE = os.environ.get("HARNESS_TEST_IMAGE", "debian:bookworm-slim")

Start = Callable[..., Awaitable[DockerSandbox]]


@pytest.fixture
def image() -> str:
    return IMAGE


@pytest.fixture
async def provider(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[DockerProvider]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    provider = DockerProvider()
    try:
        readiness = await provider.check()
        if not readiness.works:
            pytest.skip(f"no Docker engine: {readiness.fix}")
        yield provider
    finally:
        await provider.close()


@pytest.fixture
async def bridge(provider: DockerProvider) -> None:
    """Leaves the test out where the engine has no bridge, or has it on another machine."""
    async with provider._engine.call("network") as client:
        names = {each["Name"] for each in await client._query_json("networks")}
    if "bridge" not in names or not provider._engine.url.startswith("unix://"):
        leave_out("this engine has no bridge on this machine")


@pytest.fixture
async def start(provider: DockerProvider, image: str) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def begin(**changes: Any) -> DockerSandbox:
            options: dict[str, Any] = {"image": image, "workdir": "/app", "ttl_sec": 120, **changes}
            if "build_dir" in options:
                del options["image"]
            sandbox = await stack.enter_async_context(open_sandbox(provider, SandboxSpec(**options)))
            assert isinstance(sandbox, DockerSandbox)
            return sandbox

        yield begin


@pytest.fixture
async def sandbox(start: Start) -> DockerSandbox:
    return await start()
