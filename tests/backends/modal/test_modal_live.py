"""The same contract in the real cloud, where its key is in the environment."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from backends import SandboxSpec
from backends.conformance import CHECKS, NotApplicable
from backends.modal.provider import ModalProvider

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not (os.environ.get("MODAL_TOKEN_ID") and os.environ.get("MODAL_TOKEN_SECRET")),
        reason="live: set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET to run against Modal itself",
    ),
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
        pytest.skip(str(reason))
