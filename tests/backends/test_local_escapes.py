"""What a hostile command tries, and what it finds."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backends import NetworkMode, SandboxBackendProtocol, SandboxSpec, create_provider
from backends.local.namespaces import tool


@pytest.fixture(params=["bwrap", "unshare"])
async def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SandboxBackendProtocol]:
    provider = create_provider("local", isolation=request.param)
    if not (await provider.check()).works:
        pytest.skip(f"{request.param} is not usable here")
    (tmp_path / "Dockerfile").write_text("FROM debian\nWORKDIR /app\n")
    made = await provider.start(SandboxSpec(build_dir=tmp_path))
    yield made
    await made.stop()


async def code(sandbox: SandboxBackendProtocol, command: str) -> int | None:
    return (await sandbox.execute(command, timeout=20)).exit_code


async def output(sandbox: SandboxBackendProtocol, command: str) -> str:
    return (await sandbox.execute(command, timeout=20)).output.strip()


async def test_no_capability_is_held_and_none_can_be_gained(sandbox: SandboxBackendProtocol) -> None:
    status = dict(line.split(":\t") for line in (await output(sandbox, "cat /proc/self/status")).splitlines())
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"


async def test_the_host_s_usr_cannot_be_written_even_after_a_remount(sandbox: SandboxBackendProtocol) -> None:
    assert await code(sandbox, "echo x >/usr/bin/harness-escape") != 0
    assert await code(sandbox, "mount -o remount,rw,bind /usr") != 0
    assert await code(sandbox, "mount -o remount,rw /usr; echo x >/usr/harness-escape") != 0
    assert await code(sandbox, "umount /usr; umount -l /usr/src; umount -l /etc/alternatives; echo x >/usr/x") != 0
    assert await code(sandbox, "echo x >/etc/alternatives/x") != 0
    assert not Path("/usr/harness-escape").exists()
    assert not Path("/usr/bin/harness-escape").exists()


async def test_a_nested_namespace_gives_no_new_powers(sandbox: SandboxBackendProtocol) -> None:
    nested = (
        "unshare --user --map-root-user --mount sh -c 'mount -o remount,rw,bind /usr && echo x >/usr/harness-escape'"
    )
    assert await code(sandbox, nested) != 0
    assert await code(sandbox, "unshare --mount true") != 0
    assert await code(sandbox, "unshare --user true") != 0
    assert await code(sandbox, "chroot / true") != 0
    assert await code(sandbox, "mknod /tmp/disk b 254 0 && head -c 1 /tmp/disk") != 0
    assert not Path("/usr/harness-escape").exists()


async def test_host_files_accounts_and_keys_are_invisible(sandbox: SandboxBackendProtocol, tmp_path: Path) -> None:
    (tmp_path / "canary").write_text("canary")
    for path in (tmp_path / "canary", Path(__file__), Path.home() / ".ssh", "/etc/shadow", "/etc/ssh", "/etc/sudoers"):
        assert await code(sandbox, f"ls -d {path}") != 0, path
    assert await output(sandbox, "ls /home /root /tmp /run /var/lib 2>/dev/null | grep -v :") == ""
    assert await output(sandbox, "cut -d: -f1 /etc/passwd") == "root\nnobody"
    assert await output(sandbox, "ls /etc/ssl/private/* 2>/dev/null") == ""
    assert await output(sandbox, "hostname") == "sandbox" != socket.gethostname()


async def test_engine_sockets_are_out_of_reach(sandbox: SandboxBackendProtocol) -> None:
    found = await output(sandbox, "find / -path /proc -prune -o -path /usr -prune -o -type s -print 2>/dev/null")
    assert found == ""
    assert await code(sandbox, "ls /var/run/docker.sock /run/docker.sock /run/containerd") != 0


async def test_other_processes_cannot_be_seen_traced_or_signalled(sandbox: SandboxBackendProtocol) -> None:
    mine = os.getpid()
    commands = await output(sandbox, "cat /proc/[0-9]*/comm")
    assert set(commands.split()) <= {"sh", "cat"}
    assert await code(sandbox, f"kill -0 {mine}") != 0 or await output(sandbox, f"cat /proc/{mine}/comm") in (
        "sh",
        "cat",
    )
    # Pid 1 keeps one capability that commands lack, so the kernel refuses to let them trace it.
    assert await code(sandbox, "ls -l /proc/1/root/ /proc/1/cwd/") != 0
    assert await code(sandbox, "cat /proc/1/environ") != 0
    assert await code(sandbox, "echo x >/proc/1/fd/0") != 0
    await sandbox.execute("kill -9 1; kill -STOP 1; kill -9 -1", timeout=10)
    assert await sandbox.is_alive()
    assert await output(sandbox, "echo still here") == "still here"


async def test_the_network_is_closed_to_abstract_sockets_too(sandbox: SandboxBackendProtocol) -> None:
    assert "lo" in await output(sandbox, "cat /proc/net/dev")
    with socket.socket(socket.AF_UNIX) as abstract, socket.create_server(("127.0.0.1", 0)) as server:
        abstract.bind(b"\0harness-abstract")
        abstract.listen()
        assert "harness-abstract" not in await output(sandbox, "cat /proc/net/unix")
        port = server.getsockname()[1]
        connect = f"bash -c 'exec 9<>/dev/tcp/127.0.0.1/{port}'"
        assert await code(sandbox, connect) != 0


async def test_the_network_is_there_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian\n")
    provider = create_provider("local")
    if not (await provider.check()).works or tool("bash") is None:
        pytest.skip("needs namespaces and bash")
    made = await provider.start(SandboxSpec(build_dir=tmp_path, network=NetworkMode.FULL))
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            assert await code(made, f"bash -c 'exec 9<>/dev/tcp/127.0.0.1/{port}'") == 0
    finally:
        await made.stop()


async def test_only_the_command_s_own_descriptors_are_open(sandbox: SandboxBackendProtocol) -> None:
    inherited = os.open("/etc/passwd", os.O_RDONLY)
    try:
        assert set((await output(sandbox, "ls /proc/self/fd")).split()) == {"0", "1", "2", "3"}
    finally:
        os.close(inherited)


@pytest.mark.slow
async def test_a_fork_bomb_ends_at_the_deadline(sandbox: SandboxBackendProtocol) -> None:
    response = await sandbox.execute("bomb() { bomb | bomb & }; bomb; sleep 60", timeout=1.5)
    assert response.timed_out
    assert int(await output(sandbox, "ls -d /proc/[0-9]* | wc -l")) < 10


@pytest.mark.slow
async def test_a_fork_bomb_left_behind_ends_with_kill_processes(sandbox: SandboxBackendProtocol) -> None:
    await sandbox.execute("bomb() { bomb | bomb & }; bomb", timeout=5)
    await asyncio.sleep(0.5)
    await sandbox.kill_processes()
    assert int(await output(sandbox, "ls -d /proc/[0-9]* | wc -l")) < 10


@pytest.mark.root  # only it has uids to give
async def test_run_as_root_the_sandbox_is_a_nobody_outside(sandbox: SandboxBackendProtocol) -> None:
    assert await output(sandbox, "id -u") == "0"
    outside = (await output(sandbox, "cat /proc/self/uid_map")).split()[1]
    assert int(outside) >= 20_000


async def test_secrets_do_not_appear_in_any_argument_list(sandbox: SandboxBackendProtocol) -> None:
    secret = "canary-4711"
    running = asyncio.create_task(sandbox.execute("sleep 3; true", timeout=10, env={"API_KEY": secret}))
    await asyncio.sleep(0.5)
    lines = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert secret not in lines


HARNESS = """
import asyncio, sys
from pathlib import Path
from backends import SandboxSpec, create_provider
from backends.lifecycle import OWNER, owner_label

async def main():
    provider = create_provider("local", isolation=sys.argv[2])
    spec = SandboxSpec(build_dir=Path(sys.argv[1]), labels={OWNER: owner_label(), "test": sys.argv[3]})
    sandbox = await provider.start(spec)
    await sandbox.execute("sleep 8650.75 & setsid sleep 8650.75 &", timeout=5)
    print(sandbox.id, flush=True)
    await sandbox.execute("sleep 8650.75", timeout=600)

asyncio.run(main())
"""


@pytest.mark.parametrize("isolation", ["bwrap", "unshare"])
@pytest.mark.case("A11")
async def test_a_killed_harness_leaves_a_folder_that_is_reaped_and_no_process(isolation: str, tmp_path: Path) -> None:
    from backends.lifecycle import reap

    provider = create_provider("local", isolation=isolation)
    if not (await provider.check()).works:
        pytest.skip(f"{isolation} is not usable here")
    (tmp_path / "Dockerfile").write_text("FROM debian\n")
    mark = os.urandom(6).hex()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HARNESS, str(tmp_path), isolation, mark, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    sandbox_id = (await process.stdout.readline()).decode().strip()
    process.kill()
    await process.wait()
    for _ in range(50):
        if not await _sleeps("8650.75"):
            break
        await asyncio.sleep(0.05)
    assert await _sleeps("8650.75") == 0
    assert [info.id for info in await provider.list({"test": mark})] == [sandbox_id]
    assert await reap(provider, {"test": mark}, min_age_sec=3600.0) == []
    assert [info.id for info in await reap(provider, {"test": mark}, min_age_sec=0.0)] == [sandbox_id]
    assert await provider.list({"test": mark}) == []


async def _sleeps(seconds: str) -> int:
    done = await asyncio.create_subprocess_exec("ps", "axo", "stat,args", stdout=subprocess.PIPE)
    out, _ = await done.communicate()
    rows = [line.split(None, 1) for line in out.decode().splitlines()]
    return sum(1 for row in rows if len(row) == 2 and row[1].startswith(f"sleep {seconds}") and row[0][0] != "Z")


@pytest.mark.parametrize(
    "attack",
    [
        "chmod 000 /",
        "rm -f /bin /lib64 /lib",
        "rm /bin; mkdir /bin; printf '#!/usr/bin/sh\\necho forged\\n' >/bin/sh; chmod +x /bin/sh",
    ],
)
async def test_what_a_command_did_to_the_root_folder_is_undone_when_its_processes_are_killed(
    sandbox: SandboxBackendProtocol, attack: str
) -> None:
    await code(sandbox, attack)
    await sandbox.kill_processes()
    assert await output(sandbox, "printf '#!/bin/sh\\necho honest\\n' >/app/t; chmod +x /app/t; /app/t") == "honest"
