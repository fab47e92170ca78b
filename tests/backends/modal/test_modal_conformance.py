"""The conformance suite over the Modal SDK."""

from __future__ import annotations

from typing import Any

import pytest

from backends import SandboxSpec
from backends.conformance import CHECKS, NotApplicable
from backends.modal.provider import ModalProvider


def make_spec(**overrides: Any) -> SandboxSpec:
    return SandboxSpec(**{"image": "debian:bookworm-slim", "workdir": "/app", **overrides})


ONE_USER = "another_user_runs_commands_where_users_are_offered"  # a loopback box has one; see test_modal_users


@pytest.mark.parametrize("check", [name for name in CHECKS if name != ONE_USER])
async def test_modal_keeps_the_contract(check: str, provider: ModalProvider) -> None:
    try:
        await CHECKS[check](provider, make_spec)
    except NotApplicable as reason:
        pytest.skip(str(reason))
