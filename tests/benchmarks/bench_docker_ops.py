"""What each operation of the docker backend costs next to the engine's own floor, in the same run.

Prints the median milliseconds and our own CPU milliseconds (user + system, threads included) of each operation.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiodocker
import aiohttp
import pytest

from backends import SandboxSpec, create_provider
from backends.docker.engine import address

IMAGE = os.environ.get("HARNESS_TEST_IMAGE", "debian:bookworm-slim")


async def measure(name: str, rounds: int, work: Callable[[], Awaitable[Any]]) -> float:
    """Run `work` some times and print its median wall time and mean CPU time; the median in milliseconds."""
    walls = []
    cpu = time.process_time()
    for _ in range(rounds):
        begun = time.perf_counter()
        await work()
        walls.append((time.perf_counter() - begun) * 1e3)
    cpu = (time.process_time() - cpu) * 1e3 / rounds
    print(f"{name:<34}{statistics.median(walls):9.1f} ms   min {min(walls):7.1f}   cpu {cpu:6.2f} ms")
    return statistics.median(walls)


class Floor:
    """The least that the engine can be asked for, through the same client."""

    def __init__(self, client: aiodocker.Docker) -> None:
        self.client = client

    async def start(self) -> Any:
        config = {
            "Image": IMAGE,
            "Cmd": ["sleep", "300"],
            "HostConfig": {"NetworkMode": "none", "AutoRemove": True},
        }
        container = await self.client.containers.create(config)
        await container.start()
        return container

    async def exec(self, container: Any) -> None:
        run = await container.exec(["sh", "-c", "echo hi"])
        async with run.start(detach=False) as stream:
            while await stream.read_out() is not None:
                pass
        await run.inspect()

    async def trial(self) -> None:
        container = await self.start()
        await self.exec(container)
        await self.exec(container)
        await container.delete(force=True, v=True)


@pytest.mark.docker
async def test_a_trial_costs_at_most_twice_the_engines_floor(rounds: int = 10) -> None:
    connector = aiohttp.UnixConnector(address().removeprefix("unix://"), limit=0)
    client = aiodocker.Docker(url="unix://localhost", connector=connector)
    floor = Floor(client)
    provider = create_provider("docker")
    spec = SandboxSpec(image=IMAGE, workdir="/app", directories=("/logs", "/tests"), ttl_sec=300)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        for number in range(5):
            (tree / f"{number}.txt").write_text("x" * 1000)

        async def trial() -> None:
            sandbox = await provider.start(spec)
            try:
                await sandbox.execute("echo hi", timeout=30)
                await sandbox.upload(tree, "/solution")
                await sandbox.execute("cat /solution/*", timeout=30)
                await sandbox.kill_processes()
                await sandbox.upload(tree, "/tests")
                await sandbox.execute("echo 1 >/logs/reward.txt", timeout=30)
                await sandbox.download("/logs", Path(folder) / "out")
            finally:
                await sandbox.stop()

        async def start_stop() -> None:
            await (await provider.start(spec)).stop()

        async def floor_start_stop() -> None:
            await (await floor.start()).delete(force=True, v=True)

        bare = await floor.start()
        sandbox = await provider.start(spec)
        try:
            await measure("floor: exec", rounds * 3, lambda: floor.exec(bare))
            await measure("ours:  execute", rounds * 3, lambda: sandbox.execute("echo hi", timeout=30))
            await measure("ours:  upload 5 files", rounds, lambda: sandbox.upload(tree, "/tests"))
            await measure("ours:  download 5 files", rounds, lambda: sandbox.download("/tests", Path(folder) / "down"))
            await measure("ours:  write 1 KB", rounds, lambda: sandbox.write("/app/f", b"x" * 1000))
            await measure("ours:  read 1 KB", rounds, lambda: sandbox.read("/app/f"))
            await measure("ours:  kill_processes", rounds, sandbox.kill_processes)
            await measure("ours:  renew", rounds, sandbox.renew)
        finally:
            await sandbox.stop()
            await bare.delete(force=True, v=True)
        await measure("floor: start + remove", rounds, floor_start_stop)
        await measure("ours:  start + stop", rounds, start_stop)
        floors = await measure("floor: start + 2 execs + remove", rounds, floor.trial)
        ours = await measure("ours:  trial of 7 operations", rounds, trial)
        print(f"trial / floor: {ours / floors:.2f}")
    await provider.close()
    await client.close()
    await connector.close()
    assert ours <= 2 * floors
