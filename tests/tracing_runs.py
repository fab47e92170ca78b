"""Runs with and without exporters: how long they take, and what of their records does not differ from run to run."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from builders import MemoryProvider, make_task
from tracing_servers import LangSmithServer, Loopback, OtlpServer, wait_for

from backends.spec import SandboxSpec
from harness.job.config import JobConfig
from harness.job.runner import run_job
from harness.store.layout import JobPaths
from harness.tracing.exporter import Exporter, end_all
from harness.tracing.sink import Target

N_TASKS, N_ATTEMPTS = 4, 5
N_TRIALS = N_TASKS * N_ATTEMPTS
_START_SEC = 0.4
_VOLATILE = {
    "id",
    "started_at",
    "finished_at",
    "updated_at",
    "created_at",
    "trial_uri",
    "occurred_at",
    "job_id",
    "trials_dir",
}


async def _slow_start(spec: SandboxSpec) -> None:
    await asyncio.sleep(_START_SEC)


def run_once(
    folder: Path, name: str, exporters: list[Exporter], *, ready: Callable[[], object] = lambda: True
) -> float:
    """Run a job, twenty trials of which each waits, to the end of its exporters; the seconds that it took.

    Its end comes when all is `ready`, and the waiting for that does not count: an SDK may take longer to load than such
    a job lasts.
    """
    if not (folder / "tasks").exists():
        for number in range(N_TASKS):
            make_task(folder / "tasks", f"t{number}")
    config = JobConfig(dataset=str(folder / "tasks"), agent="nop", n_attempts=N_ATTEMPTS, n_concurrent=4)
    began = time.monotonic()
    provider = MemoryProvider(on_start=_slow_start)
    asyncio.run(run_job(config, JobPaths(folder / name), provider=provider, subscribers=exporters))
    ran = time.monotonic() - began
    wait_for(ready, 40)
    began = time.monotonic()
    end_all(exporters)
    return ran + time.monotonic() - began


def what_stays(value: Any) -> Any:
    """A record without what differs from run to run."""
    if isinstance(value, dict):
        return {key: what_stays(item) for key, item in value.items() if key not in _VOLATILE}
    if isinstance(value, list):  # of names: in the order in which trials happened to end
        return sorted(value) if all(isinstance(item, str) for item in value) else [what_stays(item) for item in value]
    return value


def records(job: Path) -> dict[str, Any]:
    """All records of a job, the job's own included."""
    found = {path.parent.name: what_stays(json.loads(path.read_text())) for path in job.glob("*/result.json")}
    return {**found, "": what_stays(json.loads((job / "result.json").read_text()))}


def server_of(target: Target, fault: str | None) -> Loopback:
    return LangSmithServer(fault=fault) if target is Target.LANGSMITH else OtlpServer(fault=fault)


def exporter_of(target: Target, job: Path, server: Loopback) -> Exporter:
    env = {**os.environ, "LANGSMITH_ENDPOINT": server.url, "LANGSMITH_API_KEY": "lsv2_0"}
    return Exporter(target, job, server.url if target is Target.OTEL else None, env=env)
