"""What the harness adds to E2B's own SDK: CPU of this process per command, and memory, against a loopback E2B.

The control plane runs in a process of its own. Printed: CPU milliseconds per command through the harness and through
the bare SDK, in the same run, and peak resident memory. Limits: twice the bare call, 300 MB.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from backends import SandboxSpec, create_provider
from backends.lifecycle import open_sandbox

SANDBOXES, COMMANDS = 20, 10

SERVER = """
import asyncio, json, sys
from controlplanes.e2b import e2b_plane

async def serve():
    async with e2b_plane() as plane:
        print(json.dumps(plane.env), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        print(len(plane.sandboxes), flush=True)

asyncio.run(serve())
"""


async def cpu_ms(work: Callable[[], Awaitable[object]], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        await work()
    return (time.process_time() - began) * 1000 / times


async def measure(folder: Path) -> dict[str, float]:
    (folder / "Dockerfile").write_text("FROM scratch\nWORKDIR /app\n")
    provider = create_provider("e2b", creates_per_sec=1000, max_sandboxes=SANDBOXES)
    spec = SandboxSpec(build_dir=folder)
    found = {}
    async with open_sandbox(provider, spec) as sandbox:
        bare = sandbox._channel._sandbox  # type: ignore[attr-defined]  # the SDK's own object
        for _ in range(2):  # the first round warms both up
            found["bare_ms"] = await cpu_ms(lambda: bare.commands.run("true", user="root", timeout=30), 30)
            found["harness_ms"] = await cpu_ms(lambda: sandbox.execute("true", timeout=30), 30)

    async def use() -> None:
        async with open_sandbox(provider, spec) as sandbox:
            for _ in range(COMMANDS):
                assert (await sandbox.execute("echo x", timeout=60)).stdout == b"x\n"

    began, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*(use() for _ in range(SANDBOXES)))
    found["wall_sec"] = time.monotonic() - began
    found["all_cpu_ms_per_command"] = (time.process_time() - cpu) * 1000 / (SANDBOXES * COMMANDS)
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    await provider.close()
    return found


def test_a_command_costs_at_most_twice_the_bare_call_and_none_is_left() -> None:
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        ) as server,
    ):
        assert server.stdout is not None and server.stdin is not None
        os.environ.update(json.loads(server.stdout.readline()))
        found = asyncio.run(measure(Path(folder)))
        server.stdin.close()
        left = int(server.stdout.readline())
    print({name: round(value, 2) for name, value in found.items()})
    assert left == 0
    assert found["harness_ms"] <= 2 * found["bare_ms"]
    assert found["peak_mb"] <= 300
