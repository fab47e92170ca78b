"""Local sandboxes for tests whose subject is what runs in one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from backends.local.provider import LocalProvider
from backends.spec import SandboxSpec


@asynccontextmanager
async def local_provider() -> AsyncIterator[LocalProvider]:
    """The provider; the test is skipped on a machine that cannot isolate."""
    provider = LocalProvider()
    ready = await provider.check()
    if not ready.works:
        pytest.skip(f"no isolation here: {ready.detail}")
    yield provider
    await provider.close()


def plain_spec(folder: Path, **fields: Any) -> SandboxSpec:
    """A sandbox with an empty /app."""
    build = folder / "environment"
    build.mkdir()
    (build / "Dockerfile").write_text("FROM debian:bookworm-slim\nWORKDIR /app\n")
    return SandboxSpec(build_dir=build, **fields)
