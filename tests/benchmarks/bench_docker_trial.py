"""What a trial costs on Docker, against the engine's own floor, measured in the same run.

The floor is what nothing can avoid: create, start, two commands, remove, through the same socket. Limits: one oracle
trial at most twice the floor; twenty, four at a time, at most twice the floor at the same concurrency; our own CPU
below 60 ms a trial. Rounds of floor and trials alternate, so that a busy machine slows both.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiodocker
import aiohttp
import pytest

from backends.docker.provider import DockerProvider
from harness.job.config import JobConfig
from harness.job.runner import run_job
from harness.store.layout import JobPaths

IMAGE = os.environ.get("HARNESS_TEST_IMAGE", "debian:bookworm-slim")
SOCKET = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
ROUNDS, MANY, AT_A_TIME = 5, 20, 4


async def floor_once(engine: aiodocker.Docker) -> None:
    config = {"Image": IMAGE, "Cmd": ["sleep", "60"], "HostConfig": {"NetworkMode": "none"}}
    container = await engine.containers.create(config)
    await container.start()
    for _ in range(2):
        execution = await container.exec(["true"])
        async with execution.start() as stream:
            while await stream.read_out() is not None:
                pass
    await container.delete(force=True)


async def floor(count: int, at_a_time: int) -> float:
    """Seconds for `count` bare sandboxes."""
    gate = asyncio.Semaphore(at_a_time)
    connector = aiohttp.UnixConnector(SOCKET, limit=0)
    async with aiodocker.Docker(url="unix://localhost", connector=connector) as engine:

        async def one() -> None:
            async with gate:
                await floor_once(engine)

        started = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(count)))
        seconds = time.perf_counter() - started
    await connector.close()
    return seconds


async def trials(folder: Path, count: int, at_a_time: int) -> float:
    """Seconds for `count` oracle trials of one small task."""
    job = JobConfig(
        dataset="hello/greeting", agent="oracle", backend="docker", n_attempts=count, n_concurrent=at_a_time
    )
    name = f"{time.monotonic_ns()}"
    outcome = await run_job(job, JobPaths(folder / name), provider=DockerProvider())
    assert outcome.summary.counts["scored"] == count
    return outcome.seconds


def timed_cpu(work: Callable[[], Awaitable[float]]) -> tuple[float, float]:
    before = time.process_time()
    seconds = asyncio.run(work())  # type: ignore[arg-type]
    return seconds, time.process_time() - before


@pytest.mark.docker
@pytest.mark.timeout(600)
def test_a_trial_costs_at_most_twice_what_the_engine_itself_costs() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        asyncio.run(trials(folder, 1, 1))  # builds the image
        singles, floors, crowds, crowd_floors, cpus = [], [], [], [], []
        for _ in range(ROUNDS):
            floors.append(asyncio.run(floor(1, 1)))
            singles.append(asyncio.run(trials(folder, 1, 1)))
        for _ in range(2):
            crowd_floors.append(asyncio.run(floor(MANY, AT_A_TIME)))
            seconds, cpu = timed_cpu(lambda: trials(folder, MANY, AT_A_TIME))
            crowds.append(seconds)
            cpus.append(1000 * cpu / MANY)
    one, bare = statistics.median(singles), statistics.median(floors)
    single = one / bare
    crowd = min(crowds) / min(crowd_floors)
    print(f"\none oracle trial: {one:.2f} s, floor {bare:.2f} s: {single:.2f}x")
    print(f"{MANY} at {AT_A_TIME} a time: {min(crowds):.1f} s, floor {min(crowd_floors):.1f} s: {crowd:.2f}x")
    print(f"our CPU: {min(cpus):.0f} ms a trial")
    assert single <= 2
    assert crowd <= 2
    assert min(cpus) <= 60
