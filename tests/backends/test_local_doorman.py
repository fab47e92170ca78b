"""The process that starts commands in local sandboxes: that it dies changes nothing, and nobody is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backends import SandboxSpec, create_provider
from backends.local.entry import DOORMAN
from backends.protocol import SandboxBackendProtocol


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[SandboxBackendProtocol]:
    provider = create_provider("local")
    if not (await provider.check()).works:
        pytest.skip("namespaces are forbidden here")
    (tmp_path / "Dockerfile").write_text("FROM debian\nWORKDIR /app\n")
    sandbox = await provider.start(SandboxSpec(build_dir=tmp_path))
    yield sandbox
    await sandbox.stop()


async def test_a_doorman_that_was_killed_is_replaced(sandbox: SandboxBackendProtocol) -> None:
    assert (await sandbox.execute("echo one", timeout=10)).output == "one"
    os.kill(DOORMAN.pid, signal.SIGKILL)
    os.waitid(os.P_PID, DOORMAN.pid, os.WEXITED | os.WNOWAIT)
    assert (await sandbox.execute("echo two", timeout=10)).output == "two"


async def test_a_command_whose_caller_gives_up_while_it_starts_is_ended(sandbox: SandboxBackendProtocol) -> None:
    for patience in (0.0, 0.001, 0.003, 0.01):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(patience):
                await sandbox.execute("sleep 1000", timeout=60)
    left = await sandbox.execute("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", timeout=10)
    assert "sleep" not in left.output


async def test_the_doorman_knows_nothing_of_the_harness_s_environment(
    sandbox: SandboxBackendProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_OURS", "hunter2")
    await sandbox.execute("true", timeout=10)
    assert b"hunter2" not in Path(f"/proc/{DOORMAN.pid}/environ").read_bytes()


async def test_commands_hold_no_capability_and_none_of_the_doorman_s_descriptors(
    sandbox: SandboxBackendProtocol,
) -> None:
    script = "grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status; ls /proc/$$/fd"
    lines = (await sandbox.execute(script, timeout=10)).output.split()
    pairs = dict(zip(lines[:12:2], lines[1:12:2], strict=True))
    assert pairs.pop("NoNewPrivs:") == "1"
    assert set(pairs.values()) == {"0" * 16}
    assert {int(each) for each in lines[12:]} <= {0, 1, 2, 10}  # dash keeps the script that it reads as its 10
