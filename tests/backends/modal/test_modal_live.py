"""The same contract in the real cloud, where its key is in the environment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from left_out import leave_out

from backends import SandboxSpec
from backends.conformance import CHECKS, NotApplicable
from backends.modal.provider import ModalProvider

pytestmark = [
    pytest.mark.live("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


@pytest.fixture
async def cloud() -> AsyncIterator[ModalProvider]:
    provider = ModalProvider(app="harness-conformance")
    try:
        yield provider
    finally:
        await provider.close()


def make_spec(**overrides: Any) -> SandboxSpec:
    return SandboxSpec(**{"image": "debian:bookworm-slim", "workdir": "/app", "ttl_sec": 300.0, **overrides})


@pytest.mark.parametrize("check", list(CHECKS))
async def test_modal_itself_keeps_the_contract(check: str, cloud: ModalProvider) -> None:
    try:
        await CHECKS[check](cloud, make_spec)
    except NotApplicable as reason:
        leave_out(str(reason))
