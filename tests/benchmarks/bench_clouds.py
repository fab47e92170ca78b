"""What the harness adds to a cloud's own SDK: 1,000 sandboxes, 200 at a time, with ten commands each.

The SDK is real, and so are the wire and the service's side of it, a loopback control plane in a process of its own.
Only the boxes are doubles that answer at once: this machine's processes are not what is measured. Every call takes
0.2 s longer than it would. Printed and limited, per cloud:

- CPU per command, as a whole process, against the SDK's own plain call in the same process and run: at most twice;
- peak resident memory: 300 MB;
- sandboxes left on the service: none;
- wall time against the ideal, in which nothing takes time but the calls that a sandbox needs one after another (as the
  service counted them): at most 1.3 times that, at 25 at a time. At 200 in one process the SDKs' own CPU sets the
  pace, since 200 calls of 1.5 ms do not fit into 0.2 s: there, at most 1.3 times the ideal and the CPU together, and
  the bare SDK's wall time for as much work is printed next to it.

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
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import controlplanes.localbox
import pytest
from controlplanes.cloud import CLOUDS, cloud
from controlplanes.instant import HELLO, InstantBox

from backends import SandboxSpec, create_provider, open_sandbox
from backends.modal.entrypoint import clock
from backends.remote.limits import TokenBucket

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
            print(json.dumps({"calls": plane.n_calls, "left": len(plane.left), "made": len(plane.made)}), flush=True)


class Service:
    """A control plane in a process of its own."""

    def __init__(self, name: str) -> None:
        argv = [sys.executable, __file__, "serve", name]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.env: dict[str, str] = self._line()

    def _line(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def set(self, latency: float) -> dict[str, int]:
        """Let every call take so much longer from now on, and tell what there is."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{latency}\n")
        self._process.stdin.flush()
        return dict(self._line())

    def close(self) -> None:
        self._process.communicate()


# The harness


def make_provider(name: str, at_a_time: int) -> Any:
    """A provider with as many places as are used, and no brake on creation."""
    provider: Any = create_provider(name, max_sandboxes=at_a_time)
    provider._launcher._bucket = TokenBucket(1e6, burst=at_a_time)
    return provider


async def ten_commands(sandbox: Any) -> None:
    for _ in range(COMMANDS):
        response = await sandbox.execute("echo hello", timeout=60)
        assert response.stdout == HELLO


async def whole_life(provider: Any, spec: SandboxSpec) -> None:
    async with open_sandbox(provider, spec) as sandbox:
        await ten_commands(sandbox)


# The bare SDK


async def bare_command(name: str, sandbox: Any) -> None:
    """The plain call of each SDK, on its own sandbox, and its output."""
    if name == "daytona":
        said = (await sandbox.process.exec("echo hello", timeout=60)).result
    elif name == "e2b":
        said = (await sandbox.commands.run("echo hello", cwd="/", timeout=60)).stdout
    else:
        process = await sandbox.exec.aio("echo", "hello", timeout=60)
        said = await process.stdout.read.aio()
        await process.wait.aio()
    assert said == HELLO.decode()


async def bare_life(name: str, provider: Any, spec: SandboxSpec) -> None:
    """The plain calls of each SDK for as many commands as `whole_life` sends, the one that prepares included."""
    if name == "daytona":
        from daytona import CreateSandboxFromSnapshotParams

        source = await provider._images.ensure(spec)
        sdk = provider._client._open()
        sandbox = await sdk.create(CreateSandboxFromSnapshotParams(snapshot=source.snapshot), timeout=60)
        end = sandbox.delete
    elif name == "e2b":
        from e2b import AsyncSandbox

        template = await provider._templates.ensure(spec)
        sandbox = await AsyncSandbox.create(template.alias, timeout=600)
        end = sandbox.kill
    else:
        import modal

        source = await provider._images.ensure(spec)
        _, app = await provider._session.connection()
        sandbox = await modal.Sandbox.create.aio(*clock(600), app=app, image=source.image, timeout=600)

        async def end() -> None:
            await sandbox.terminate.aio()
            await sandbox.detach.aio()

    await bare_command(name, sandbox)
    await ten_bare_commands(name, sandbox)
    await end()


async def ten_bare_commands(name: str, sandbox: Any) -> None:
    for _ in range(COMMANDS):
        await bare_command(name, sandbox)


# Measuring


def peak_mb() -> float:
    """The most memory that this process ever had, not counting what its parent had."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


async def spent(works: list[Callable[[], Awaitable[None]]], at_a_time: int) -> tuple[float, float]:
    """Seconds of this process's CPU, and of the clock, for all of them together, so many of them at a time."""
    gate = asyncio.Semaphore(at_a_time)

    async def one(work: Callable[[], Awaitable[None]]) -> None:
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
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "Dockerfile").write_text("FROM debian:bookworm-slim\nWORKDIR /app\n")
        spec = SandboxSpec(build_dir=Path(folder), workdir="/app", ttl_sec=600, start_timeout_sec=300)
        provider = make_provider(name, max(at_a_time, COMPARED))
        try:
            await whole_life(provider, spec)  # builds the image
            before = service.set(LATENCY)["calls"]
            idle_mb = peak_mb()
            cpu, wall = await spent([partial(whole_life, provider, spec)] * number, at_a_time)
            after = service.set(LATENCY)
            peak = peak_mb()
            _, bare_wall = await spent([partial(bare_life, name, provider, spec)] * at_a_time, at_a_time)
            service.set(0.0)
            found = {
                "cpu_sec": cpu,
                "wall_sec": wall,
                "bare_sec": bare_wall * number / at_a_time,
                "calls": (after["calls"] - before) / number,
                "peak_mb": peak,
                "idle_mb": idle_mb,
            }
            found |= await compare(name, provider, spec)
            left = service.set(0.0)
            return found | {"left": left["left"], "made": left["made"]}
        finally:
            await provider.close()
            service.close()


async def compare(name: str, provider: Any, spec: SandboxSpec) -> dict[str, float]:
    """Our command and the SDK's own, in turns, in the same sandboxes."""
    ours = bare = 0.0
    async with AsyncExitStack() as stack:
        starting = [stack.enter_async_context(open_sandbox(provider, spec)) for _ in range(COMPARED)]
        sandboxes: list[Any] = list(await asyncio.gather(*starting))
        for turn in range(ROUNDS + 1):
            cpu, _ = await spent([partial(ten_commands, each) for each in sandboxes], COMPARED)
            bare_works = [partial(ten_bare_commands, name, each._channel._sandbox) for each in sandboxes]
            bare_cpu, _ = await spent(bare_works, COMPARED)
            if turn:  # the first one warms up
                ours, bare = ours + cpu, bare + bare_cpu
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
        f"\n  wall {found['wall_sec']:.1f} s, ideal {ideal:.1f} s ({found['calls']:.1f} calls in a row each):"
        f" {found['wall_sec'] / ideal:.2f}x, of it {found['cpu_sec']:.1f} s of CPU;"
        f" the bare SDK {found['bare_sec']:.1f} s: {found['bare_sec'] / ideal:.2f}x"
        f"\n  peak {found['peak_mb']:.0f} MB ({found['idle_mb']:.0f} MB after the first sandbox)"
        f"\n  sandboxes made {found['made']:.0f}, left {found['left']:.0f}"
    )
    assert found["made"] == 1 + number + at_a_time + COMPARED
    assert found["left"] == 0
    assert found["peak_mb"] <= 300
    assert found["our_ms"] <= 2 * found["bare_ms"]
    assert found["wall_sec"] <= 1.3 * (ideal if at_a_time < 100 else ideal + found["cpu_sec"])


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(serve(sys.argv[2]))
    else:
        print(json.dumps(asyncio.run(measure(sys.argv[2], *map(int, sys.argv[3:])))))
