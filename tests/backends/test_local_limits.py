"""Limits, trouble at the start, and the difference between a command that failed and one that never ran."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import processes_with
from left_out import leave_out

from backends import (
    Resources,
    SandboxDiskFull,
    SandboxError,
    SandboxSpec,
    SandboxTimeout,
    SandboxUnavailable,
    create_provider,
)
from backends.local import home, init, process
from backends.local.entry import DOORMAN, Entry, NotStarted, answered
from backends.local.namespaces import Limits
from backends.local.provider import LocalProvider
from backends.local.sandbox import LocalSandbox
from backends.local.spawn import CLEAN_ENV
from backends.local.streams import Leftovers


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    if not (await create_provider("local").check()).works:
        pytest.skip("namespaces are not usable here")
    (tmp_path / "Dockerfile").write_text("FROM debian\nWORKDIR /app\n")
    yield tmp_path


async def test_memory_processes_and_file_sizes_are_limited(folder: Path) -> None:
    resources = Resources(memory_mb=64, pids=20, disk_mb=1)
    sandbox = await create_provider("local").start(SandboxSpec(build_dir=folder, resources=resources))
    try:
        hungry = await sandbox.execute("head -c 200000000 /dev/zero | tail -c 199999999 | wc -c", timeout=20)
        assert "memory exhausted" in hungry.output
        many = await sandbox.execute("i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i + 1)); done", timeout=20)
        assert many.exit_code != 0
        # Our own file operations are not kept out by what the commands hold.
        await sandbox.write("x", b"x")
        assert await sandbox.read("x") == b"x"
        await sandbox.kill_processes()
        large = await sandbox.execute("head -c 3000000 /dev/zero >large; wc -c <large", timeout=20)
        assert int(large.stdout) == 1 << 20
    finally:
        await sandbox.stop()


async def test_a_shell_that_never_ran_is_no_result() -> None:
    limits = Limits(processes=None, file_bytes=1)
    nowhere = os.open(os.devnull, os.O_RDONLY)  # in place of a namespace
    try:
        with pytest.raises(NotStarted):
            await process.run(
                Entry(pidfd=nowhere, uid=None, network=False, tag=1 << 40, limits=limits),
                script=b"true\n",
                stdin=None,
                timeout=10,
                max_output=100,
                leftovers=Leftovers(),
                kill_all=lambda: None,
            )
    finally:
        os.close(nowhere)


async def test_a_command_of_a_sandbox_that_died_is_no_result(folder: Path) -> None:
    from backends import SandboxUnavailable

    provider = create_provider("local")
    sandbox = await provider.start(SandboxSpec(build_dir=folder))
    running = asyncio.create_task(sandbox.execute("sleep 30", timeout=60))
    await asyncio.sleep(0.2)
    await provider.remove(sandbox.id)
    with pytest.raises(SandboxUnavailable):
        await running
    with pytest.raises(SandboxUnavailable):
        await sandbox.kill_processes()


async def test_a_start_that_takes_too_long_is_a_timeout_and_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home, "_parent", lambda: tmp_path)
    with pytest.raises(SandboxTimeout):
        await create_provider("local").start(SandboxSpec(build_dir=folder, start_timeout_sec=0.0))
    assert list(tmp_path.glob("harness-local-*")) == []


async def test_a_start_that_is_given_up_at_any_moment_leaves_no_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above all not when the namespace's first process waits for who started it, with nobody left to tell it."""
    with tempfile.TemporaryDirectory(prefix="given-up-") as parent:
        Path(parent).chmod(0o755)
        monkeypatch.setattr(home, "_parent", lambda: Path(parent))
        provider = create_provider("local")
        for number in range(40):
            with suppress(SandboxTimeout):
                sandbox = await provider.start(SandboxSpec(build_dir=folder, start_timeout_sec=number * 0.0005))
                await sandbox.stop()
        await asyncio.sleep(0.1)
        assert processes_with(parent) == []


@pytest.mark.root
@pytest.mark.case("A14")
async def test_a_full_disk_is_named_as_such(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,mode=1777", "tmpfs", str(small)], check=False).returncode:
        leave_out("cannot mount a tmpfs")
    try:
        (small / "fill").write_bytes(b"x" * 4096)
        monkeypatch.setattr(home, "_parent", lambda: small)
        with pytest.raises(SandboxDiskFull):
            await create_provider("local").start(SandboxSpec(build_dir=folder))
        assert [path.name for path in small.iterdir()] == ["fill"]
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.slow
async def test_a_hostile_tree_is_removed_to_the_last_file(folder: Path) -> None:
    sandbox = await create_provider("local").start(SandboxSpec(build_dir=folder))
    steps = "/".join(["d"] * 700)
    deep = f"for n in 1 2 3; do mkdir -p {steps} && cd -P {steps} || exit; done; echo deep"
    assert (await sandbox.execute(deep, timeout=30)).output == "deep"
    await sandbox.execute("mkdir -p shut/in; touch shut/in/x; chmod 000 shut/in shut; ln -s / link", timeout=10)
    place = home._parent() / f"harness-local-{sandbox.id}"
    assert place.exists()
    await sandbox.stop()
    assert not place.exists()


async def test_an_environment_that_no_shell_can_hold_is_refused(folder: Path) -> None:
    sandbox = await create_provider("local").start(SandboxSpec(build_dir=folder))
    try:
        with pytest.raises(ValueError, match="a-b"):
            await sandbox.execute("true", timeout=10, env={"a-b": "1"})
        with pytest.raises((ValueError, SandboxError)):
            await sandbox.execute("a\0b", timeout=10)
    finally:
        await sandbox.stop()


async def test_the_harness_s_own_umask_changes_nothing(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        sandbox = await create_provider("local").start(SandboxSpec(build_dir=folder, directories=("/data/in",)))
    finally:
        os.umask(before)
    try:
        assert (await sandbox.execute("umask; echo x >/data/in/x; ls /app /data", timeout=10)).exit_code == 0
        assert (await sandbox.execute("umask", timeout=10)).output == "0022"
    finally:
        await sandbox.stop()


async def test_a_command_that_stopped_itself_ends_with_the_others_and_with_its_sandbox(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian:bookworm-slim\nWORKDIR /app\n")
    sandbox = await create_provider("local").start(SandboxSpec(build_dir=tmp_path))
    stopped = asyncio.create_task(sandbox.execute("kill -STOP $$", timeout=30))
    await asyncio.sleep(0.5)
    await sandbox.kill_processes()
    assert (await asyncio.wait_for(stopped, 5)).exit_code == 137
    stopped = asyncio.create_task(sandbox.execute("kill -STOP $$", timeout=30))
    await asyncio.sleep(0.5)
    await sandbox.stop()
    with pytest.raises(SandboxUnavailable):
        await asyncio.wait_for(stopped, 5)


async def test_processes_that_may_live_on_are_not_said_to_be_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise NotStarted("Resource temporarily unavailable")

    sandbox = await create_provider("local").start(SandboxSpec(build_dir=folder))
    try:
        with monkeypatch.context() as patched:
            patched.setattr("backends.local.sandbox.run_blocking", refused)
            with pytest.raises(SandboxError, match="could not be ended: Resource temporarily unavailable"):
                await sandbox.kill_processes()
        await sandbox.kill_processes()
    finally:
        await sandbox.stop()


async def test_who_kills_whatever_comes_in_ends_with_kill_processes(folder: Path) -> None:
    sandbox = await create_provider("local").start(SandboxSpec(build_dir=folder))
    try:
        await sandbox.execute("exec setsid perl -e 'fork and exit; while (1) { kill 9, -1 }'", timeout=10)
        await sandbox.kill_processes()
        assert (await sandbox.execute("echo at peace", timeout=10)).output == "at peace"
    finally:
        await sandbox.stop()


async def test_a_sandbox_whose_command_nobody_awaits_is_given_up_and_its_folder_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init, "_END_SEC", 0.3)
    sandbox = await LocalProvider().start(SandboxSpec(build_dir=folder))
    assert isinstance(sandbox, LocalSandbox)
    place = sandbox._home.folder
    pid = command_of(sandbox, "sleep 1000")
    try:
        with pytest.raises(SandboxError, match="has not ended"):
            await asyncio.wait_for(sandbox.stop(), 20)
        assert not place.exists()
    finally:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def command_of(sandbox: LocalSandbox, script: str) -> int:
    """A command that its starter has to reap, as a harness whose event loop is held up does not."""
    with tempfile.TemporaryFile() as text, Path(os.devnull).open("r+b") as null:
        text.write(f"{script}\n".encode())
        text.seek(0)
        entry = sandbox._entry(sandbox._home.first_tag + 1000, sandbox._limits)
        fds = [null.fileno()] * 3
        return answered(DOORMAN.ask(entry, CLEAN_ENV, *fds, text.fileno()), within=10)
