"""What local sandboxes cost: of start, five commands and stop; and of whole trials with verification and record.

Run it from the repository: `python tests/benchmarks/bench_local.py [isolation]`; TMPDIR=/dev/shm keeps private
folders in memory. It prints one JSON line. CPU is ours and the children's; trials a second
say something on an idle machine only.
Targets: 100 ms of CPU for the sandbox alone, 20 whole trials a second on two cores.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from backends import SandboxSpec, create_provider
from harness.agents.tool_calling.config import LoopConfig
from harness.job.config import JobConfig
from harness.job.runner import run_job
from harness.store.layout import JobPaths

ROUNDS = 12
COMMANDS = 5
TRIALS = 200
AT_A_TIME = 8
FLYWHEEL = Path(__file__).parents[2] / "examples" / "flywheel"


def cpu_ms() -> float:
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return 1000 * sum(each.ru_utime + each.ru_stime for each in both)


async def sandboxes(isolation: str) -> dict[str, object]:
    """Start, five commands and stop, one sandbox after the other."""
    provider = create_provider("local", isolation=isolation)
    trials, commands, walls = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Dockerfile").write_text("FROM debian\nWORKDIR /app\n")
        await provider.check()
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
        "sandbox_cpu_ms_min": round(min(trials), 1),
        "sandbox_cpu_ms_median": round(sorted(trials)[ROUNDS // 2], 1),
        "sandbox_wall_ms_min": round(min(walls), 1),
        "command_wall_ms_min": round(min(commands), 2),
    }


async def whole_trials() -> dict[str, object]:
    """The flywheel's tasks as a job: every attempt takes five turns, is verified and recorded."""
    sys.path.insert(0, str(FLYWHEEL))
    import random

    from family import make_task

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number in range(TRIALS // 4):
            make_task(root / "tasks" / f"t{number:03}", random.Random(number))
        job = JobConfig(
            dataset=str(root / "tasks"), agent="bench_local:five_commands", n_attempts=4, n_concurrent=AT_A_TIME
        )
        before, began = cpu_ms(), time.monotonic()
        outcome = await run_job(job, JobPaths(root / "jobs" / "j"))
        wall = time.monotonic() - began
        assert outcome.summary.counts["scored"] == TRIALS
    return {
        "trial_cpu_ms": round((cpu_ms() - before) / TRIALS, 1),
        "trials_per_sec": round(TRIALS / wall, 1),
        "load_before": round(os.getloadavg()[0], 1),
    }


def five_commands():  # type: ignore[no-untyped-def]
    """Three files looked into, a word written, a look at it; the turns are then used up."""
    from harness.agents.tool_calling.loop import ToolCallingAgent
    from harness.llm.scripted import ScriptedModel, load_script

    with tempfile.NamedTemporaryFile("w", suffix=".toml") as script:
        for command in ("cat a", "cat b", "cat c", "echo word>k", "cat k"):
            script.write(f'[[replies]]\ncalls = [{{ name = "bash", arguments = {{ command = "{command}" }} }}]\n')
        script.flush()
        model = ScriptedModel(load_script(Path(script.name)))
    return ToolCallingAgent(LoopConfig(system_prompt=" ", max_turns=COMMANDS), model, name="five-commands")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.modules["bench_local"] = sys.modules["__main__"]
    measured = asyncio.run(sandboxes(sys.argv[1] if len(sys.argv) > 1 else "auto"))
    print(json.dumps({**measured, **asyncio.run(whole_trials())}))
