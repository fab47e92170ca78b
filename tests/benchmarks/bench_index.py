"""The index over 100,000 trials: how fast they are read, how soon a query answers, what it costs to see that nothing changed.

Printed: trials a second of one process, the milliseconds of five typical queries (p50 and p95 of 30 runs each, the store
being open), the seconds of a refresh without changes, and the index's size.
Limits: 1,000 trials a second, p50 below 50 ms each, 5 s for the refresh.
The trials are written to memory (/dev/shm, where there is one) and removed afterwards.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.records import Behaviour
from harness.store.trajectories import TrajectoryStore

JOBS, TRIALS, TURNS = 100, 1000, 4
CATEGORIES = ("coding", "memory", "recovery", "tool_usage", "file_operations", "planning")
OUTCOMES = ("scored",) * 8 + ("agent_failed", "infra_error")
COMMANDS = ("ls -la /app", "python3 -m pytest -q tests", "cat /app/main.py", "git status", "sed -i s/a/b/ /app/x.py")
RUNS = 30

QUERIES = {
    "the latest successes": "outcome=scored reward>=0.5 category=memory",
    "a rare command": 'tool=bash command~"rm -rf" exit=1',
    "one agent since": "agent=agent-3 since=2026-11-20 failure=infra_sandbox",
    "behaviour": "loops>=2 failed_calls>5",
    "one group": "group=task-7@digest-7",
}


@pytest.fixture(scope="module")
def jobs() -> Iterator[Path]:
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="bench-index-", dir=memory if memory.is_dir() else None))
    try:
        for number in range(JOBS):
            write_job(folder / f"job-{number:03}", random.Random(number))
        yield folder
    finally:
        shutil.rmtree(folder)


def write_job(folder: Path, rng: random.Random) -> None:
    """A job of small records, as text: building each from its model would take minutes."""
    start = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=rng.randrange(24 * 28))
    for number in range(TRIALS):
        trial = folder / f"task-{number // 8}__{number % 8 + 1}"
        (trial / "agent").mkdir(parents=True)
        (trial / "result.json").write_text(json.dumps(record(trial.name, number, start, rng), indent=2))
        (trial / "agent" / "trajectory.json").write_text(json.dumps(trajectory(rng)))


def record(name: str, number: int, start: datetime, rng: random.Random) -> dict[str, Any]:
    outcome, task = rng.choice(OUTCOMES), number // 8
    reward = rng.choice([0.0, 0.25, 0.5, 1.0]) if outcome == "scored" else None
    failure = {
        "category": "infra_sandbox" if outcome == "infra_error" else "capability",
        "layer": "sandbox" if outcome == "infra_error" else "agent",
        "tag": outcome,
        "retryable": False,
        "trainable": outcome != "infra_error",
        "message": "x" * 80,
    }
    begun = start + timedelta(seconds=number)
    phase = {"started_at": begun.isoformat(), "finished_at": (begun + timedelta(seconds=60)).isoformat()}
    behaviour = {key: rng.randrange(8) for key in Behaviour.model_fields if not key.endswith("_sec")}
    return {
        "schema_version": 1,
        "id": name,
        "task_name": f"suite/task-{task}",
        "trial_name": name,
        "trial_uri": f"file:///{name}",
        "task_id": {"path": f"suite/task-{task}"},
        "task_checksum": f"digest-{task}",
        "config": {"trial_name": name, "agent": {"name": "agent", "kwargs": {"note": "x" * 800}}},
        "agent_info": {"name": f"agent-{rng.randrange(5)}", "version": "1", "model_info": {"name": "org/model"}},
        "agent_result": {"n_input_tokens": rng.randrange(9999), "n_output_tokens": 512, "n_calls": TURNS},
        "verifier_result": None if reward is None else {"rewards": {"reward": reward, "style": rng.random()}},
        **phase,
        "agent_execution": phase,
        "verifier": phase,
        "reward_valid": reward is not None,
        "outcome": outcome,
        "reward": reward,
        "failure": None if reward else failure,
        "categories": rng.sample(CATEGORIES, 2),
        "difficulty": rng.choice(["easy", "hard"]),
        "attempt": number % 8 + 1,
        "retry": 0,
        "group_id": f"task-{task}@digest-{task}",
        "policy_version": f"step-{rng.randrange(50)}",
        "sandbox": {"backend": "docker", "isolation": "container", "id": name},
        "behaviour": behaviour,
    }


def trajectory(rng: random.Random) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": "Do it. " * 20}]
    for turn in range(TURNS):
        command = "rm -rf /app/build" if rng.random() < 0.0005 else f"{rng.choice(COMMANDS)} # {rng.randrange(10**6)}"
        code = 1 if rng.random() < 0.2 or command.startswith("rm") else 0
        steps.append(
            {
                "step_id": turn + 2,
                "source": "agent",
                "message": "Next I look at this. " * 5,
                "tool_calls": [
                    {"tool_call_id": f"c{turn}", "function_name": "bash", "arguments": {"command": command}}
                ],
                "observation": {
                    "results": [{"source_call_id": f"c{turn}", "content": "y" * 200, "extra": {"exit_code": code}}]
                },
                "metrics": {"prompt_tokens": 900 + turn, "completion_tokens": 40},
            }
        )
    return {"schema_version": "ATIF-v1.7", "agent": {"name": "agent", "version": "1"}, "steps": steps}


@pytest.mark.slow
def test_an_index_of_a_hundred_thousand_trials_is_soon_made_and_sooner_asked(jobs: Path) -> None:
    store = TrajectoryStore(jobs)
    cpu = time.process_time()
    done = store.refresh()
    cpu = time.process_time() - cpu
    assert done.added == JOBS * TRIALS and not done.damaged
    size = sum(path.stat().st_size for path in (jobs / ".harness").iterdir())
    rate = done.added / done.seconds
    print(f"\n{done.added:,} trials read in {done.seconds:.1f} s ({cpu:.1f} CPU-seconds): {rate:,.0f} a second; ")
    print(f"the index: {size / 1e6:.0f} MB")
    again = store.refresh()
    print(f"refresh without changes: {again.seconds:.2f} s")
    assert (again.added, again.changed, again.removed) == (0, 0, 0)
    medians = {}
    for name, text in QUERIES.items():
        took = sorted(_milliseconds(store, text) for _ in range(RUNS))
        medians[name] = statistics.median(took)
        found = store.count(text)
        print(f"{name:>22}: p50 {medians[name]:5.1f} ms, p95 {took[int(RUNS * 0.95)]:5.1f} ms, {found:,} trials")
    counting = sorted(_counting(store) for _ in range(RUNS))
    print(f"{'by:task':>22}: p50 {statistics.median(counting):5.1f} ms, p95 {counting[int(RUNS * 0.95)]:5.1f} ms")
    store.close()
    assert max(medians.values()) < 50
    assert rate > 1000
    assert again.seconds < 5


def _milliseconds(store: TrajectoryStore, text: str) -> float:
    """The first 50 trials, as `harness query` shows them."""
    before = time.perf_counter()
    list(store.query(text, limit=50))
    return 1000 * (time.perf_counter() - before)


def _counting(store: TrajectoryStore) -> float:
    before = time.perf_counter()
    store.counts("by:task")
    return 1000 * (time.perf_counter() - before)
