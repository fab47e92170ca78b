"""A short life in the real cloud, where the environment has a key for it."""

from __future__ import annotations

import os
import secrets

import pytest

from backends import NetworkMode, SandboxSpec, open_sandbox
from backends.daytona.provider import DaytonaProvider
from backends.lifecycle import OWNER, owner_label

pytestmark = [
    pytest.mark.live("DAYTONA_API_KEY"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


async def test_a_sandbox_of_the_cloud_runs_commands_keeps_files_and_ends() -> None:
    provider = DaytonaProvider()
    labels = {OWNER: owner_label(), "harness.live": secrets.token_hex(8)}
    spec = SandboxSpec(image="debian:bookworm-slim", workdir="/app", labels=labels, start_timeout_sec=300)
    try:
        async with open_sandbox(provider, spec) as sandbox:
            response = await sandbox.execute("id -un; pwd; printf err >&2; exit 3", timeout=30)
            assert (response.stdout, response.stderr, response.exit_code) == (b"root\n/app\n", b"err", 3)
            assert (await sandbox.execute("id -un", timeout=30, user="nobody")).stdout == b"nobody\n"
            late = await sandbox.execute("echo first; sleep 60", timeout=2)
            assert (late.timed_out, late.stdout, late.exit_code) == (True, b"first\n", None)
            data = os.urandom(300_000)
            await sandbox.write("file", data)
            assert await sandbox.read("file") == data
            await sandbox.kill_processes()
            assert await sandbox.is_alive()
            assert [info.id for info in await provider.list(labels)] == [sandbox.id]
        assert await provider.list(labels) == []
        assert spec.network is NetworkMode.NONE
    finally:
        await provider.close()
