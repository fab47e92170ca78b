"""Ending what commands left behind, beside a provider's daemon that must live on."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from typing import IO

import pytest
from controlplanes.localbox import Box, Process

from backends.errors import SandboxStartError
from backends.frame import Request
from backends.remote.channel import Reply
from backends.remote.prepare import Prepared, prepare
from backends.remote.processes import kill_all


class BoxChannel:
    """A box as a channel, as far as preparing and killing need one."""

    id = "box"

    def __init__(self, box: Box) -> None:
        self.box = box

    async def run(self, request: Request, *, user: str | None, timeout: float) -> Reply:
        code, out, _ = await self.box.run(request.argv, env=request.env, stdin=request.stdin).communicate()
        return Reply(out, code)

    async def put(self, path: str, source: IO[bytes]) -> None:
        await self.box.files.write(path, source.read())

    async def get(self, path: str, target: IO[bytes], *, max_bytes: int) -> None:
        target.write(await self.box.files.read(path, max_bytes=max_bytes))

    async def alive(self) -> bool:
        return await self.box.alive()

    async def extend(self, seconds: float) -> None: ...

    async def destroy(self) -> None:
        await self.box.stop()


@pytest.fixture
async def channel() -> AsyncIterator[BoxChannel]:
    box = await Box.start()
    yield BoxChannel(box)
    await box.stop()


def shell(channel: BoxChannel, script: str) -> Process:
    return channel.box.run(["sh", "-c", script])


async def sleepers(channel: BoxChannel) -> set[str]:
    _, out, _ = await shell(
        channel, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep '^99[0-9]*$' || true"
    ).communicate()
    return set(out.decode().split())


async def prepared(channel: BoxChannel) -> Prepared:
    return await prepare(channel, [], admin=None, shared=False)


async def test_the_daemon_and_its_helpers_live_on_and_all_else_ends(channel: BoxChannel) -> None:
    shell(channel, "sleep 9901 & exec sleep 9902")
    while await sleepers(channel) != {"9901", "9902"}:
        await asyncio.sleep(0.02)
    noted = await prepared(channel)
    await shell(
        channel,
        "exec >/dev/null 2>&1; sleep 9903 & env -i sleep 9904 & setsid env -i sh -c 'sleep 9905 & sleep 9906' & "
        "(trap '' TERM HUP; setsid nohup sleep 9907 &) &",
    ).communicate()
    await asyncio.sleep(0.2)
    assert {"9903", "9904", "9905", "9906", "9907"} < await sleepers(channel)
    reply = await channel.run(kill_all(noted.spared), user=None, timeout=10)
    assert (reply.data, await sleepers(channel)) == (b"done\n", {"9901", "9902"})


async def test_what_respawns_is_outrun(channel: BoxChannel) -> None:
    noted = await prepared(channel)
    await shell(
        channel, "(setsid env -i sh -c 'while :; do sleep 9908 & sleep 0.01; done' >/dev/null 2>&1 &)"
    ).communicate()
    await asyncio.sleep(0.2)
    reply = await channel.run(kill_all(noted.spared), user=None, timeout=10)
    await asyncio.sleep(0.1)
    assert (reply.data, await sleepers(channel)) == (b"done\n", set())


async def test_a_new_process_with_the_pid_of_a_noted_one_is_not_taken_for_it(channel: BoxChannel) -> None:
    victim = shell(channel, "exec sleep 9909")
    while not await sleepers(channel):
        await asyncio.sleep(0.02)
    noted = await prepared(channel)
    forged = "\n".join(f"{line.partition(':')[0]}:1" for line in noted.spared.splitlines() if not line.startswith("1:"))
    await channel.run(kill_all(forged), user=None, timeout=10)
    assert await victim.exit_code() == -9


async def test_preparing_says_who_and_where_commands_are(channel: BoxChannel) -> None:
    found = await prepare(channel, ["/data/deep"], admin=None, shared=True)
    assert (found.user, found.directory) == ("root", "/")
    assert [info.path for info in await channel.box.files.ls("/data")] == ["/data/deep"]


async def test_a_directory_that_cannot_be_made_is_a_start_error(channel: BoxChannel) -> None:
    await channel.put("/tmp/file", io.BytesIO(b"x"))
    with pytest.raises(SandboxStartError, match="/tmp/file"):
        await prepare(channel, ["/tmp/file/x"], admin=None, shared=False)
