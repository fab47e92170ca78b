"""The process that starts commands in local sandboxes: that it dies changes nothing, and nobody is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backends import SandboxError, SandboxSpec, create_provider
from backends.lifecycle import OWNER
from backends.local import entry
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


async def test_a_doorman_that_has_stopped_is_replaced_and_nobody_else_waits_meanwhile(
    sandbox: SandboxBackendProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "ANSWER_SEC", 1.0)
    await sandbox.execute("true", timeout=10)
    os.kill(DOORMAN.pid, signal.SIGSTOP)
    command = asyncio.create_task(sandbox.execute("echo never", timeout=60))
    longest = 0.0
    while not command.done():
        began = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - began)
    with pytest.raises(SandboxError, match="did not answer"):
        await command
    assert longest < 0.7
    assert (await sandbox.execute("echo next", timeout=10)).output == "next"


async def test_a_caller_who_gives_up_while_the_doorman_has_stopped_is_told_so_and_its_command_ended(
    sandbox: SandboxBackendProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sandbox.execute("true", timeout=10)
    os.kill(DOORMAN.pid, signal.SIGSTOP)
    command = asyncio.create_task(sandbox.execute("sleep 1000", timeout=60))
    await asyncio.sleep(0.1)
    command.cancel()
    await asyncio.sleep(0.1)
    os.kill(DOORMAN.pid, signal.SIGCONT)
    with pytest.raises(asyncio.CancelledError):
        await command
    left = await sandbox.execute("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", timeout=10)
    assert "sleep" not in left.output

    monkeypatch.setattr(entry, "ANSWER_SEC", 0.5)
    os.kill(DOORMAN.pid, signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await sandbox.execute("sleep 1000", timeout=60)


async def test_a_start_that_is_cancelled_while_its_namespace_is_sealed_leaves_nothing(
    tmp_path: Path, sandbox: SandboxBackendProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {OWNER: f"cancelled-while-sealing-{os.getpid()}"}
    provider = create_provider("local")
    sealing = asyncio.Event()
    told = entry.told

    async def watched(answer: int) -> None:
        sealing.set()
        await told(answer)

    monkeypatch.setattr("backends.local.provider.told", watched)
    before = children()
    os.kill(DOORMAN.pid, signal.SIGSTOP)
    starting = asyncio.create_task(provider.start(SandboxSpec(build_dir=tmp_path, labels=labels)))
    await asyncio.wait_for(sealing.wait(), 60)
    assert children() > before
    assert len(await provider.list(labels)) == 1
    starting.cancel()
    await asyncio.sleep(0.1)
    os.kill(DOORMAN.pid, signal.SIGCONT)
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert children() == before
    assert await provider.list(labels) == []


def children() -> set[str]:
    """The processes that this one has to await, ended ones included."""
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


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
