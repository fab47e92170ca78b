"""The conformance suite over Daytona's real SDK and a loopback control plane."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from backends import SandboxSpec
from backends.conformance import CHECKS, NotApplicable
from backends.daytona.provider import DaytonaProvider

ONE_USER = "another_user_runs_commands_where_users_are_offered"


def make_spec(folder: Path, **overrides: Any) -> SandboxSpec:
    return SandboxSpec(**{"build_dir": folder, **overrides})


@pytest.mark.parametrize("check", CHECKS)
async def test_daytona_keeps_the_contract(check: str, provider: DaytonaProvider, build_dir: Path) -> None:
    if check == ONE_USER:
        pytest.skip("a loopback box knows one user; switching is tested in test_remote_users.py")
    try:
        await CHECKS[check](provider, functools.partial(make_spec, build_dir))
    except NotApplicable as reason:
        pytest.skip(str(reason))
