"""The real E2B. Runs where E2B_API_KEY is set: `pytest -m live tests/backends/test_e2b_live.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from left_out import leave_out

from backends import SandboxProvider, SandboxSpec, create_provider
from backends.conformance import CHECKS, NotApplicable
from backends.lifecycle import OWNER, owner_label

pytestmark = [pytest.mark.live("E2B_API_KEY"), pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
async def provider() -> AsyncIterator[SandboxProvider]:
    made = create_provider("e2b")
    yield made
    await made.close()


@pytest.mark.parametrize("check", CHECKS)
async def test_the_real_e2b_keeps_the_contract(check: str, provider: SandboxProvider, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian:bookworm-slim\nWORKDIR /app\n")

    def make_spec(**overrides: Any) -> SandboxSpec:
        return SandboxSpec(**{"build_dir": tmp_path, "labels": {OWNER: owner_label()}, **overrides})

    try:
        await CHECKS[check](provider, make_spec)
    except NotApplicable as reason:
        leave_out(str(reason))
