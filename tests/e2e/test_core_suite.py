"""Admission to the core suite: every task gives the solution everything, and gives nothing to anybody else.

One job per agent runs all tasks, as a user's would.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.spec import NetworkMode
from evals.categories import load_categories
from harness.failures import Outcome
from harness.job.config import JobConfig
from harness.job.runner import run_job
from harness.records import TrialResult
from harness.store.layout import JobPaths
from harness.task.dataset import load_dataset
from harness.task.model import Task

pytestmark = pytest.mark.timeout(900)

TASKS = {task.path.name: task for task in load_dataset("core") if isinstance(task, Task)}
NAMES = sorted(TASKS)
ATTEMPTS = 5
SECONDS = 5.0
"""What a solution may take in the best of its attempts: a busy machine is no fault of the task's."""

Ran = Callable[..., dict[str, list[TrialResult]]]


@pytest.fixture(scope="module")
def ran(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    record_testsuite_property: Callable[[str, object], None],
) -> Ran:
    """Runs the tasks that the chosen tests are about, once for each request; the attempts by task's folder name."""
    chosen = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    include = tuple(name for name in NAMES if name in chosen)
    done: dict[str, dict[str, list[TrialResult]]] = {}

    def run(agent: str, **fields: Any) -> dict[str, list[TrialResult]]:
        key = json.dumps([agent, fields])
        if key not in done:
            folder = tmp_path_factory.mktemp("core")
            config = JobConfig(dataset="core", include=include, agent=agent, **{"n_concurrent": 2, **fields})
            outcome = asyncio.run(run_job(config, JobPaths(folder / "job")))
            record_testsuite_property(f"seconds of {len(include)} tasks: {key}", round(outcome.seconds, 1))
            print(f"{len(include)} tasks, {agent} {fields}: {outcome.seconds:.1f} s")
            done[key] = {name: [] for name in NAMES}
            for path in sorted((folder / "job").glob("*/result.json")):
                record = TrialResult.model_validate_json(path.read_text())
                done[key][Path(record.task_id["path"]).name].append(record)
        return done[key]

    return run


def told(record: TrialResult) -> str:
    """What a failed test shows of an attempt."""
    verification = record.verification.output_tail if record.verification else ""
    return f"{record.trial_name}: {record.outcome} {record.reward} {record.failure}\n{verification}"


def seconds(record: TrialResult) -> float:
    """How long an attempt's agent acted, in its longest step."""
    timings = [step.agent_execution for step in record.step_results or ()] or [record.agent_execution]
    spans = [(each.started_at, each.finished_at) for each in timings if each is not None]
    return max((end - start).total_seconds() for start, end in spans if start is not None and end is not None)


def test_every_folder_of_the_suite_is_a_task() -> None:
    found = load_dataset("core")
    assert [task for task in found if not isinstance(task, Task)] == []
    assert {task.name for task in found} == {f"core/{name}" for name in NAMES}


def test_the_suite_has_sixty_tasks_and_five_of_every_category() -> None:
    assert len(TASKS) >= 60
    counts = Counter(task.categories[0] for task in TASKS.values())
    assert {key: counts[key] for key in load_categories() if counts[key] < 5} == {}


def test_every_category_has_easy_and_hard_tasks_and_some_between() -> None:
    found = {key: {task.difficulty for task in TASKS.values() if key in task.categories} for key in load_categories()}
    assert {key: levels for key, levels in found.items() if levels != {"easy", "medium", "hard"}} == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_task_is_described_clean_portable_and_needs_no_network(name: str) -> None:
    task = TASKS[name]
    assert task.findings == ()
    assert task.categories
    assert set(task.categories) <= set(load_categories())
    assert task.difficulty in ("easy", "medium", "hard")
    assert task.metadata["reward"] in ("binary", "graded")
    assert task.tags
    assert task.environment.network is NetworkMode.NONE
    assert task.environment.resources.memory_mb == 512
    assert task.environment.build_dir is not None
    first, *rest = (task.environment.build_dir / "Dockerfile").read_text().splitlines()
    assert first == "FROM debian:bookworm-slim"
    assert {line.split()[0] for line in rest if line} <= {"WORKDIR", "ENV", "COPY"}


@pytest.mark.parametrize("name", NAMES)
def test_every_script_of_a_task_is_valid_bash(name: str) -> None:
    for script in TASKS[name].path.rglob("*.sh"):
        done = subprocess.run(["bash", "-n", script], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_solution_earns_everything_each_time_and_soon(name: str, ran: Ran) -> None:
    attempts = ran("oracle", n_attempts=ATTEMPTS)[name]
    assert [record.reward for record in attempts] == [1.0] * ATTEMPTS, "\n".join(map(told, attempts))
    assert min(map(seconds, attempts)) < SECONDS


@pytest.mark.slow
@pytest.mark.case("B13")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("agent", "options"),
    [
        pytest.param("nop", {}, id="nothing"),
        pytest.param("dishonest_agents:Lazy", {"line": False}, id="empty-files"),
        pytest.param("dishonest_agents:Lazy", {"line": True}, id="files-of-one-line"),
        pytest.param("dishonest_agents:Tampering", {}, id="tampering"),
    ],
)
def test_what_is_not_work_earns_nothing(name: str, agent: str, options: dict[str, Any], ran: Ran) -> None:
    (record,) = ran(agent, options=options)[name]
    assert record.outcome is Outcome.SCORED, told(record)
    assert record.reward == 0.0, told(record)


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.parametrize("name", NAMES)
def test_the_solution_earns_everything_in_a_container_too(name: str, ran: Ran) -> None:
    attempts = ran("oracle", backend="docker", n_concurrent=4)[name]
    assert [record.reward for record in attempts] == [1.0], "\n".join(map(told, attempts))
