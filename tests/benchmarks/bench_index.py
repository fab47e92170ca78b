"""The index over 100,000 trials: how fast they are read, how soon queries answer, what a look without changes costs.

Printed: trials a second of one process, the milliseconds of typical queries (p50 and p95 of 30 runs each, the store
being open), the seconds of a refresh without changes, and the index's size.
Limits, of this process's CPU time, which a busy machine stretches least: 500 trials a second, p50 of each query below
50 ms, 5 s for the refresh.
The trials are written to memory (/dev/shm, where there is one) and removed afterwards.
"""

from __future__ import annotations

import json
import os
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
KINDS = 500

QUERIES = {
    "the latest successes": "outcome=scored reward>=0.5 category=memory",
    "a rare command": 'tool=bash command~"rm -rf" exit=1',
    "a rare text alone": 'command~"rm -rf"',
    "one agent since": "agent=agent-3 since=2026-11-20 failure=infra_sandbox",
    "behaviour": "loops>=2 failed_calls>5",
    "one group": "group=task-7@digest-7",
}


@pytest.fixture(scope="module")
def jobs() -> Iterator[Path]:
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="bench-index-", dir=memory if memory.is_dir() else None))
    try:
        write_jobs(folder, JOBS)
        yield folder
    finally:
        shutil.rmtree(folder)


def write_jobs(folder: Path, count: int) -> None:
    """Jobs of small trials. Records are texts filled in, and trajectories links to some: 100,000 take a minute so."""
    rng = random.Random(0)
    kinds = folder / ".kinds"
    kinds.mkdir()
    for number in range(KINDS):
        (kinds / str(number)).write_text(json.dumps(trajectory(rng, rare=number == 0)))
    records = [json.dumps(record(rng)) for _ in range(KINDS)]
    for job in range(count):
        start = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=rng.randrange(24 * 28))
        for number in range(TRIALS):
            task, attempt = divmod(number, 8)
            trial = f"{folder}/job-{job:03}/task-{task}__{attempt + 1}"
            os.makedirs(f"{trial}/agent")  # noqa: PTH103 – paths as objects would be half of the time
            os.link(kinds / str(rng.randrange(KINDS)), f"{trial}/agent/trajectory.json")
            begun = start + timedelta(seconds=number)
            text = rng.choice(records).replace("@BEGUN@", begun.isoformat()).replace("@TASK@", str(task))
            text = text.replace("@ENDED@", (begun + timedelta(seconds=60)).isoformat()).replace("@TRIAL@", trial)
            with open(f"{trial}/result.json", "w") as file:  # noqa: PTH123
                file.write(text.replace('"@ATTEMPT@"', str(attempt + 1)))


def record(rng: random.Random) -> dict[str, Any]:
    outcome = rng.choice(OUTCOMES)
    reward = rng.choice([0.0, 0.25, 0.5, 1.0]) if outcome == "scored" else None
    failure = {
        "category": "infra_sandbox" if outcome == "infra_error" else "capability",
        "layer": "sandbox" if outcome == "infra_error" else "agent",
        "tag": outcome,
        "retryable": False,
        "trainable": outcome != "infra_error",
        "message": "x" * 80,
    }
    phase = {"started_at": "@BEGUN@", "finished_at": "@ENDED@"}
    behaviour = {key: rng.randrange(8) for key in Behaviour.model_fields if not key.endswith("_sec")}
    return {
        "schema_version": 1,
        "id": "@TRIAL@",
        "task_name": "suite/task-@TASK@",
        "trial_name": "@TRIAL@",
        "trial_uri": "file:///@TRIAL@",
        "task_id": {"path": "suite/task-@TASK@"},
        "task_checksum": "digest-@TASK@",
        "config": {"trial_name": "@TRIAL@", "agent": {"name": "agent", "kwargs": {"note": "x" * 800}}},
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
        "attempt": "@ATTEMPT@",
        "retry": 0,
        "group_id": "task-@TASK@@digest-@TASK@",
        "policy_version": f"step-{rng.randrange(50)}",
        "sandbox": {"backend": "docker", "isolation": "container", "id": "@TRIAL@"},
        "behaviour": behaviour,
    }


def trajectory(rng: random.Random, *, rare: bool) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": "Do it. " * 20}]
    for turn in range(TURNS):
        command = "rm -rf /app/build" if rare else f"{rng.choice(COMMANDS)} # {rng.randrange(10**6)}"
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
    rate = done.added / cpu
    print(f"\n{done.added:,} trials read in {done.seconds:.1f} s, {cpu:.1f} CPU-seconds: {rate:,.0f} a CPU-second")
    print(f"the index: {size / 1e6:.0f} MB")
    cpu = time.process_time()
    again = store.refresh()
    cpu = time.process_time() - cpu
    print(f"refresh without changes: {again.seconds:.2f} s, {cpu:.2f} CPU-seconds")
    assert (again.added, again.changed, again.removed) == (0, 0, 0)
    medians = {}
    for name, text in QUERIES.items():
        both = [_milliseconds(store, text) for _ in range(RUNS)]
        took, medians[name] = sorted(wall for wall, _ in both), statistics.median(busy for _, busy in both)
        found = store.count(text)
        p50, p95 = statistics.median(took), took[int(RUNS * 0.95)]
        print(f"{name:>22}: p50 {p50:5.1f} ms ({medians[name]:.1f} CPU-ms), p95 {p95:5.1f} ms, {found:,} trials")
    counting = sorted(_counting(store) for _ in range(RUNS))
    print(f"{'by:task':>22}: p50 {statistics.median(counting):5.1f} ms, p95 {counting[int(RUNS * 0.95)]:5.1f} ms")
    store.close()
    assert max(medians.values()) < 50
    assert rate > 500
    assert cpu < 5


def _milliseconds(store: TrajectoryStore, text: str) -> tuple[float, float]:
    """The wall and CPU time of the first 50 trials, as `harness query` shows them."""
    wall, cpu = time.perf_counter(), time.process_time()
    list(store.query(text, limit=50))
    return 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)


def _counting(store: TrajectoryStore) -> float:
    before = time.perf_counter()
    store.counts("by:task")
    return 1000 * (time.perf_counter() - before)
