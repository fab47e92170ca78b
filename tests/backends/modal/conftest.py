"""The unmodified SDK against a loopback control plane, and sandboxes that are stopped whatever a test does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from controlplanes.modal import ModalPlane, modal_plane

from backends import SandboxBackendProtocol, SandboxSpec, open_sandbox
from backends.modal.provider import ModalProvider

IMAGE = "debian:bookworm-slim"

Start = Callable[..., Awaitable[SandboxBackendProtocol]]


@pytest.fixture
async def plane(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModalPlane]:
    async with modal_plane() as plane:
        for name, value in plane.env.items():
            monkeypatch.setenv(name, value)  # the SDK reads them at each use
        yield plane


@pytest.fixture
async def provider(plane: ModalPlane) -> AsyncIterator[ModalProvider]:
    provider = ModalProvider()
    try:
        yield provider
    finally:
        await provider.close()


@pytest.fixture
async def start(provider: ModalProvider) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def begin(**changes: Any) -> SandboxBackendProtocol:
            options: dict[str, Any] = {"image": IMAGE, "workdir": "/app", "ttl_sec": 120, **changes}
            if "build_dir" in options:
                del options["image"]
            return await stack.enter_async_context(open_sandbox(provider, SandboxSpec(**options)))

        yield begin


@pytest.fixture
async def sandbox(start: Start) -> SandboxBackendProtocol:
    return await start()
