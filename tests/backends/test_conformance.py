"""The conformance suite over every backend that runs here."""

from __future__ import annotations

import functools
import importlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from left_out import leave_out

from backends import SandboxProvider, SandboxSpec, create_provider
from backends.conformance import CHECKS, NotApplicable

BACKENDS = [
    pytest.param(("local", {"isolation": "bwrap"}), id="local-bwrap"),
    pytest.param(("local", {"isolation": "unshare"}), id="local-unshare"),
    pytest.param(("docker", {}), id="docker", marks=pytest.mark.docker),
    pytest.param(("daytona", {}), id="daytona"),
    pytest.param(("e2b", {"creates_per_sec": 1000}), id="e2b"),
    pytest.param(("modal", {}), id="modal"),
]
PLANES = {"daytona": "daytona_plane", "e2b": "e2b_plane", "modal": "modal_plane"}
"""Backends that run against a loopback control plane: controlplanes.NAME, and the context manager in it."""

ONE_USER = {"another_user_runs_commands_where_users_are_offered": "the boxes of a loopback control plane have one user"}
DOCKER_IMAGE = "debian:bookworm-slim"


@pytest.fixture(params=BACKENDS)
async def provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SandboxProvider]:
    name, options = request.param
    async with AsyncExitStack() as stack:
        if name in PLANES:
            module = importlib.import_module(f"controlplanes.{name}")
            plane = await stack.enter_async_context(getattr(module, PLANES[name])())
            for variable, value in plane.env.items():
                monkeypatch.setenv(variable, value)
        made = create_provider(name, **options)
        stack.push_async_callback(made.close)
        readiness = await made.check()
        if name == "local" and not readiness.works:
            pytest.skip(readiness.detail)
        yield made


def make_spec(name: str, folder: Path, **overrides: Any) -> SandboxSpec:
    if name == "docker":
        return SandboxSpec(**{"image": DOCKER_IMAGE, "workdir": "/app", "directories": ("/app",), **overrides})
    (folder / "Dockerfile").write_text(f"FROM {DOCKER_IMAGE}\nWORKDIR /app\n")
    return SandboxSpec(**{"build_dir": folder, **overrides})


CASES = {
    "a_deadline_kills_the_whole_tree": "A1",
    "a_deadline_keeps_partial_output_and_has_no_exit_code": "A2",
    "both_streams_are_drained_at_once": "A3",
    "output_over_the_cap_is_cut_between_characters_and_counted": "A4",
    "output_that_is_not_utf8_is_kept_as_bytes": "A5",
    "standard_input_is_what_was_given_or_empty": "A12",
    "links_that_leave_never_cross_the_boundary": "H1",
}
NAMES = [pytest.param(name, marks=[pytest.mark.case(CASES[name])] if name in CASES else []) for name in CHECKS]


@pytest.mark.parametrize("check", NAMES)
async def test_a_backend_keeps_the_contract(check: str, provider: SandboxProvider, tmp_path: Path) -> None:
    if provider.name in PLANES and check in ONE_USER:
        leave_out(ONE_USER[check])
    try:
        await CHECKS[check](provider, functools.partial(make_spec, provider.name, tmp_path))
    except NotApplicable as reason:
        leave_out(str(reason))
