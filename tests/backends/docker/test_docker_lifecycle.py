"""Containers from start to end: names, limits, time to live, cancelled starts, orphans."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from left_out import leave_out

from backends import NetworkMode, Resources, SandboxSpec, SandboxStartError, SandboxUnavailable
from backends.docker.container import container_name
from backends.docker.provider import DockerProvider
from backends.docker.sandbox import DockerSandbox
from backends.lifecycle import JOB, OWNER, TRIAL, owner_label, reap

pytestmark = pytest.mark.docker

Start = Callable[..., Awaitable[DockerSandbox]]


async def gone(sandbox: DockerSandbox, within: float) -> bool:
    deadline = time.monotonic() + within
    while await sandbox.is_alive():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.2)
    return True


@pytest.mark.case("A7")
def test_any_label_gives_a_legal_unique_name() -> None:
    tasks = ["Foo/Bar Baz", "_x", "Проект", "a", "k" * 120, "foo/bar-baz"]
    names = [container_name({JOB: task, TRIAL: task}) for task in tasks]
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,62}", name) for name in names)
    assert len(set(names)) == len(tasks)


async def test_the_spec_reaches_the_container(start: Start) -> None:
    sandbox = await start(
        workdir="/made/here",
        directories=("/logs/agent", "/tests"),
        user="nobody",
        resources=Resources(memory_mb=64, cpus=0.5, pids=77),
    )
    command = "pwd; id -un; touch made /logs/agent/x /tests/y && echo wrote; ls /sys/class/net"
    response = await sandbox.execute(command, timeout=20)
    assert response.stdout == b"/made/here\nnobody\nwrote\nlo\n"
    limits = await sandbox.execute(
        "cd /sys/fs/cgroup; cat pids/pids.max pids.max memory/memory.limit_in_bytes memory.max 2>/dev/null; "
        "grep NoNewPrivs /proc/self/status",
        timeout=20,
    )
    assert limits.stdout.split() == [b"77", b"67108864", b"NoNewPrivs:", b"1"]


async def test_the_network_is_none_unless_asked(start: Start) -> None:
    closed = await start()
    assert (await closed.execute("cat /proc/net/route | wc -l", timeout=20)).stdout == b"1\n"
    try:
        opened = await start(network=NetworkMode.FULL)
    except SandboxStartError as error:
        if "could not find bridge" not in str(error):
            raise
        leave_out("this engine runs without a bridge network")
    if (await opened.execute("ls /sys/class/net", timeout=20)).stdout == b"lo\n":
        leave_out("this engine runs without a bridge network")
    assert int((await opened.execute("cat /proc/net/route | wc -l", timeout=20)).stdout) > 1


@pytest.mark.slow
@pytest.mark.case("A6")
async def test_no_sandbox_takes_a_network_of_its_own_so_that_address_pools_last(start: Start) -> None:
    def networks() -> set[str]:
        listed = subprocess.run(["docker", "network", "ls", "-q"], capture_output=True, text=True, check=True)
        return set(listed.stdout.split())

    before = networks()
    sandboxes = [await start(), await start(), await start(network=NetworkMode.FULL)]
    assert len({sandbox.id for sandbox in sandboxes}) == 3
    assert networks() <= before


@pytest.mark.slow
async def test_a_sandbox_ends_by_itself_whatever_runs_in_it(start: Start, provider: DockerProvider) -> None:
    sandbox = await start(ttl_sec=2)
    with pytest.raises(SandboxUnavailable):
        await sandbox.execute("trap '' TERM; sleep 60", timeout=30)
    assert await gone(sandbox, 5)
    assert sandbox.id not in {info.id for info in await provider.list()}


@pytest.mark.slow
async def test_renewing_restarts_the_time_to_live(start: Start) -> None:
    sandbox = await start(ttl_sec=3)
    for _ in range(3):
        await asyncio.sleep(1.5)
        await sandbox.renew()
    await sandbox.kill_processes()
    assert await sandbox.is_alive()
    assert await gone(sandbox, 6)


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.05, 0.15, 0.3])
async def test_a_cancelled_start_leaves_nothing(provider: DockerProvider, image: str, delay: float) -> None:
    labels = {JOB: f"cancelled-{delay}-{time.time_ns()}"}
    task = asyncio.create_task(provider.start(SandboxSpec(image=image, labels=labels, ttl_sec=60)))
    await asyncio.sleep(delay)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await (await task).stop()
    assert await provider.list(labels) == []


async def test_a_start_that_cannot_work_says_why_and_leaves_nothing(provider: DockerProvider, image: str) -> None:
    labels = {JOB: f"failed-{time.time_ns()}"}
    spec = SandboxSpec(image=image, labels=labels, directories=("/etc/passwd/x",), ttl_sec=60)
    with pytest.raises(Exception, match="mkdir"):
        await provider.start(spec)
    assert await provider.list(labels) == []


@pytest.mark.case("A11")
async def test_only_old_orphans_of_dead_owners_are_reaped(start: Start, provider: DockerProvider) -> None:
    child = subprocess.run(
        ["python3", "-c", "from backends.lifecycle import owner_label; print(owner_label())"],
        capture_output=True,
        text=True,
        check=True,
    )
    job = f"reap-{time.time_ns()}"
    dead, live = child.stdout.strip(), owner_label()
    orphan = await start(labels={JOB: job, TRIAL: "1", OWNER: dead})
    alive = await start(labels={JOB: job, TRIAL: "2", OWNER: live})
    foreign = await start(labels={JOB: job + "-other", TRIAL: "3", OWNER: dead})
    wanted = {JOB: job}
    assert await reap(provider, wanted, min_age_sec=3600) == []
    reaped = await reap(provider, wanted, min_age_sec=3600, now=time.time() + 5 * 3600)
    assert [info.id for info in reaped] == [orphan.id]
    assert await gone(orphan, 5)
    assert await alive.is_alive() and await foreign.is_alive()


async def test_removing_is_idempotent_and_concurrent(start: Start, provider: DockerProvider) -> None:
    sandbox = await start()
    await asyncio.gather(*(provider.remove(sandbox.id) for _ in range(4)), sandbox.stop())
    await provider.remove(sandbox.id)
    assert not await sandbox.is_alive()
