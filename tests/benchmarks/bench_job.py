"""What the harness itself costs: 2,000 trials on a backend that answers at once, and resuming that finished job.

Printed: CPU milliseconds per trial, peak resident memory, and CPU seconds of the resume, as a whole process.
Limits: 3 ms a trial, 100 MB, 1 CPU-second; resuming grows linearly with the number of trials. They are judged on a file
system in memory, where there is one: what a disk's file system costs in the kernel is no matter of ours. The figure on
the temporary directory's own file system is printed next to it.
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
from pathlib import Path

from builders import MemoryProvider, make_task

from harness.job.config import JobConfig
from harness.job.runner import resume_job, run_job
from harness.store.layout import JobPaths

N_TASKS, N_ATTEMPTS = 100, 20


def measure(folder: str, what: str) -> None:
    """In a process of its own: run or resume, and print what it cost."""
    root = Path(folder)
    paths = JobPaths(root / "jobs" / "j")
    provider = MemoryProvider(keep_started=False, keeps_files=False)
    before = time.process_time() if what == "run" else 0.0
    if what == "run":
        attempts = int(sys.argv[3])
        job = JobConfig(dataset=str(root / "tasks"), agent="nop", n_attempts=attempts, n_concurrent=32)
        outcome = asyncio.run(run_job(job, paths, provider=provider))
    else:
        outcome = asyncio.run(resume_job(paths, provider=provider))
    assert outcome.summary.counts["scored"] == outcome.summary.n_total
    print(
        json.dumps(
            {
                "trials": outcome.summary.n_total,
                "cpu_sec": time.process_time() - before,
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


def child(folder: Path, what: str, attempts: int) -> dict[str, float]:
    command = [sys.executable, __file__, str(folder), what, str(attempts)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)})
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run_there(root: Path, attempts: int) -> dict[str, float]:
    for number in range(N_TASKS):
        make_task(root / "tasks", f"t{number:03}", instruction=f"Task {number}.")
    return child(root, "run", attempts)


def test_two_thousand_trials_cost_little_and_resuming_them_less() -> None:
    resumes = {}
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory() as folder:
        disk = run_there(Path(folder), N_ATTEMPTS)
        print(
            f"\non {folder}: {1000 * disk['cpu_sec'] / disk['trials']:.2f} ms CPU a trial, the kernel's part included"
        )
    for attempts in (N_ATTEMPTS // 2, N_ATTEMPTS):
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            root = Path(folder)
            ran = run_there(root, attempts)
            resumes[attempts] = min(child(root, "resume", attempts)["cpu_sec"] for _ in range(3))
    per_trial = 1000 * ran["cpu_sec"] / ran["trials"]
    print(f"\n{ran['trials']:.0f} trials: {per_trial:.2f} ms CPU each, peak {ran['peak_mb']:.0f} MB")
    print(f"resume: {resumes[N_ATTEMPTS]:.2f} s CPU; of half as many: {resumes[N_ATTEMPTS // 2]:.2f} s")
    assert per_trial <= 3
    assert ran["peak_mb"] <= 100
    assert resumes[N_ATTEMPTS] <= 1
    assert resumes[N_ATTEMPTS] <= 2.5 * resumes[N_ATTEMPTS // 2]


if __name__ == "__main__":
    measure(sys.argv[1], sys.argv[2])
