"""How long a thousand small tasks take to load, digests included: at most 2 s."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path

from harness.task.dataset import load_dataset
from harness.task.model import Task
from harness.task.suites import bundled_suites

COUNT = 1000
LIMIT_SEC = 2.0


def measure() -> float:
    """Seconds of wall time for `COUNT` tasks, copies of the bundled ones under names of their own."""
    originals = sorted(path for path in bundled_suites()["hello"].iterdir() if path.is_dir())
    with tempfile.TemporaryDirectory() as place:
        for number in range(COUNT):
            folder = Path(place, f"task-{number:04d}")
            shutil.copytree(originals[number % len(originals)], folder)
            text = (folder / "task.toml").read_text()
            (folder / "task.toml").write_text(text.replace('name = "hello/', f'name = "n{number}/'))
        started = time.perf_counter()
        tasks = load_dataset(place)
        took = time.perf_counter() - started
    assert sum(isinstance(task, Task) for task in tasks) == COUNT
    return took


def test_a_thousand_tasks_load_in_two_seconds() -> None:
    best = min(measure() for _ in range(3))
    print(json.dumps({"name": "task_load", "tasks": COUNT, "seconds": round(best, 3), "limit_seconds": LIMIT_SEC}))
    assert best <= LIMIT_SEC
