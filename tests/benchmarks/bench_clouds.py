"""What the harness adds to a cloud's own SDK: 1,000 sandboxes, 200 at a time, with ten commands each.

The SDK is real, and so are the wire and the service's side of it, a loopback control plane in a process of its own.
Only the boxes are doubles that answer at once: this machine's processes are not what is measured. Every call takes
0.2 s longer than it would. Printed and limited, per cloud:

- CPU per command, as a whole process, against the SDK's own plain call in the same process and run: at most twice;
- peak resident memory: 300 MB;
- sandboxes left on the service: none;
- wall time against the ideal, in which nothing takes time but the calls that a sandbox needs one after another (as the
  service counted them): at most 1.3 times that, at 25 at a time. At 200 the CPU that the SDK itself takes sets the
  pace, since 200 calls of 1.5 ms do not fit into 0.2 s of one process. So there the bare SDK does as many lives with
  as many commands, in turns with us, and the limit is 1.3 times the larger of the ideal and its wall time.

The providers' own brakes on creation are released: they are rates of the real services.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import controlplanes.localbox
import pytest
from controlplanes.bare import BareSdk, bare_sdk
from controlplanes.cloud import CLOUDS, cloud
from controlplanes.instant import HELLO, InstantBox

from backends import SandboxProvider, SandboxSpec, create_provider, open_sandbox

Work = Callable[[], Awaitable[None]]

LATENCY = 0.2
COMMANDS = 10
COMPARED = 40  # sandboxes in which our commands and the SDK's are compared, in turns
ROUNDS = 4


# The service


async def serve(name: str) -> None:
    """Be a control plane until standard input ends; each line is a latency to have, and is answered."""
    controlplanes.localbox.Box = InstantBox  # type: ignore[misc,assignment]  # before the planes take it
    async with cloud(name) as plane:
        print(json.dumps(dict(plane.env)), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            plane.delay_calls(float(line))
            told = {
                "calls": plane.n_calls,
                "left": len(plane.left),
                "made": len(plane.made),
                "cpu": time.process_time(),
            }
            print(json.dumps(told), flush=True)


class Service:
    """A control plane in a process of its own."""

    def __init__(self, name: str) -> None:
        argv = [sys.executable, __file__, "serve", name]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.env: dict[str, str] = self._line()

    def _line(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def set(self, latency: float) -> dict[str, float]:
        """Let every call take so much longer from now on, and tell what there is."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{latency}\n")
        self._process.stdin.flush()
        return dict(self._line())

    def close(self) -> None:
        self._process.communicate()


# What is compared


def make_provider(name: str, at_a_time: int) -> SandboxProvider:
    """A provider with as many places as are used, and no brake on creation."""
    return create_provider(name, max_sandboxes=at_a_time, creates_per_sec=1e6)


async def ten_commands(sandbox: Any) -> None:
    for _ in range(COMMANDS):
        response = await sandbox.execute("echo hello", timeout=60)
        assert response.stdout == HELLO


async def whole_life(provider: SandboxProvider, spec: SandboxSpec) -> None:
    async with open_sandbox(provider, spec) as sandbox:
        await ten_commands(sandbox)


async def ten_bare_commands(sdk: BareSdk, sandbox: Any) -> None:
    for _ in range(COMMANDS):
        assert await sdk.run(sandbox, "echo hello") == HELLO.decode()


async def bare_life(sdk: BareSdk) -> None:
    """As many commands as `whole_life` sends, the one that prepares the sandbox included."""
    sandbox = await sdk.create()
    await sdk.run(sandbox, "mkdir -p /app")
    await ten_bare_commands(sdk, sandbox)
    await sdk.end(sandbox)


# Measuring


def peak_mb() -> float:
    """The most memory that this process ever had, not counting what its parent had."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


async def spent(works: list[Work], at_a_time: int) -> tuple[float, float]:
    """Seconds of this process's CPU, and of the clock, for all of them together, so many of them at a time."""
    gate = asyncio.Semaphore(at_a_time)

    async def one(work: Work) -> None:
        async with gate:
            await work()

    cpu, clock = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(one(work))
    return time.process_time() - cpu, time.perf_counter() - clock


async def measure(name: str, number: int, at_a_time: int) -> dict[str, float]:
    service = Service(name)
    os.environ.update(service.env)
    try:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            (folder / "Dockerfile").write_text("FROM debian:bookworm-slim\nWORKDIR /app\n")
            spec = SandboxSpec(build_dir=folder, workdir="/app", ttl_sec=600, start_timeout_sec=300)
            provider = make_provider(name, max(at_a_time, COMPARED))
            stack.push_async_callback(provider.close)
            ours = partial(whole_life, provider, spec)
            await ours()  # builds the image
            found = {"idle_mb": peak_mb()}
            sdk = await stack.enter_async_context(bare_sdk(name))
            found |= await in_turns(service, ours, partial(bare_life, sdk), number, at_a_time)
            found |= await compare(provider, spec, sdk)
            last = service.set(0.0)
            return found | {"left": last["left"], "made": last["made"]}
    finally:
        service.close()


async def in_turns(service: Service, ours: Work, bare: Work, number: int, at_a_time: int) -> dict[str, float]:
    """Whole lives, ours and the SDK's, in turns of `at_a_time`, so that what else this machine does meets both."""
    found: Counter[str] = Counter()
    peak = 0.0
    for _ in range(number // at_a_time):
        before = service.set(LATENCY)
        cpu, wall = await spent([ours] * at_a_time, at_a_time)
        after, peak = service.set(LATENCY), max(peak, peak_mb())
        bare_cpu, bare_wall = await spent([bare] * at_a_time, at_a_time)
        found.update(cpu_sec=cpu, wall_sec=wall, bare_sec=bare_wall, calls=(after["calls"] - before["calls"]) / number)
        found.update(bare_cpu_sec=bare_cpu, service_cpu_sec=after["cpu"] - before["cpu"])
    service.set(0.0)
    return {**found, "peak_mb": peak}


async def compare(provider: SandboxProvider, spec: SandboxSpec, sdk: BareSdk) -> dict[str, float]:
    """Our command and the SDK's own, in turns."""
    ours = bare = 0.0
    async with AsyncExitStack() as stack:
        starting = [stack.enter_async_context(open_sandbox(provider, spec)) for _ in range(COMPARED)]
        sandboxes: list[Any] = list(await asyncio.gather(*starting))
        theirs = await asyncio.gather(*(sdk.create() for _ in range(COMPARED)))
        for turn in range(ROUNDS + 1):
            cpu, _ = await spent([partial(ten_commands, each) for each in sandboxes], COMPARED)
            bare_cpu, _ = await spent([partial(ten_bare_commands, sdk, each) for each in theirs], COMPARED)
            if turn:  # the first one warms up
                ours, bare = ours + cpu, bare + bare_cpu
        await asyncio.gather(*(sdk.end(each) for each in theirs))
    commands = ROUNDS * COMPARED * COMMANDS
    return {"our_ms": 1000 * ours / commands, "bare_ms": 1000 * bare / commands}


def child(name: str, number: int, at_a_time: int) -> dict[str, float]:
    command = [sys.executable, __file__, "measure", name, str(number), str(at_a_time)]
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(("number", "at_a_time"), [(100, 25), pytest.param(1000, 200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.timeout(400)
def test_a_thousand_sandboxes_cost_little_more_than_their_sdk(name: str, number: int, at_a_time: int) -> None:
    found = child(name, number, at_a_time)
    ideal = found["calls"] * LATENCY * number / at_a_time
    print(
        f"\n{name}, {number} sandboxes, {at_a_time} at a time, {COMMANDS} commands each:"
        f"\n  CPU per command {found['our_ms']:.2f} ms, the bare SDK's {found['bare_ms']:.2f} ms:"
        f" {found['our_ms'] / found['bare_ms']:.2f}x"
        f"\n  wall {found['wall_sec']:.1f} s; the bare SDK {found['bare_sec']:.1f} s:"
        f" {found['wall_sec'] / found['bare_sec']:.2f}x;"
        f" ideal {ideal:.1f} s ({found['calls']:.1f} calls in a row each): {found['wall_sec'] / ideal:.2f}x"
        f"\n  CPU {found['cpu_sec']:.1f} s, the bare SDK {found['bare_cpu_sec']:.1f} s;"
        f" {found['service_cpu_sec']:.1f} s for us in the service's own process"
        f"\n  peak {found['peak_mb']:.0f} MB ({found['idle_mb']:.0f} MB after the first sandbox)"
        f"\n  sandboxes made {found['made']:.0f}, left {found['left']:.0f}"
    )
    assert found["made"] == 1 + 2 * number + 2 * COMPARED
    assert found["left"] == 0
    assert found["peak_mb"] <= 300
    assert found["our_ms"] <= 2 * found["bare_ms"]
    assert found["wall_sec"] <= 1.3 * (ideal if at_a_time < 100 else max(ideal, found["bare_sec"]))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(serve(sys.argv[2]))
    else:
        print(json.dumps(asyncio.run(measure(sys.argv[2], *map(int, sys.argv[3:])))))
