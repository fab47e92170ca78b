"""What a local sandbox costs: CPU of start, five commands and stop, ours and the children's. Prints one JSON line.

Run it from the repository: `python tests/benchmarks/bench_local.py [isolation]`. The target is 100 ms.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from backends import SandboxSpec, create_provider

ROUNDS = 12
COMMANDS = 5


def cpu_ms() -> float:
    times = os.times()
    return 1000 * (times.user + times.system + times.children_user + times.children_system)


async def measure(isolation: str) -> dict[str, object]:
    provider = create_provider("local", isolation=isolation)
    trials, commands, walls = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Dockerfile").write_text("FROM debian\nWORKDIR /app\n")
        await provider.check()
        # os.times() counts in ticks of 10 ms, so each round is an average over several trials.
        for _ in range(ROUNDS):
            before, began = cpu_ms(), time.monotonic()
            spent = 0.0
            for _ in range(10):
                sandbox = await provider.start(SandboxSpec(build_dir=Path(folder)))
                middle = time.monotonic()
                for _ in range(COMMANDS):
                    await sandbox.execute("true", timeout=10)
                spent += time.monotonic() - middle
                await sandbox.stop()
            trials.append((cpu_ms() - before) / 10)
            walls.append(1000 * (time.monotonic() - began) / 10)
            commands.append(1000 * spent / 10 / COMMANDS)
    return {
        "isolation": isolation,
        "trial_cpu_ms_min": round(min(trials), 1),
        "trial_cpu_ms_median": round(sorted(trials)[ROUNDS // 2], 1),
        "trial_wall_ms_min": round(min(walls), 1),
        "command_wall_ms_min": round(min(commands), 2),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1] if len(sys.argv) > 1 else "auto"))))
