"""The bundled suite: what each task is, and in a real container what it gives to whom."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backends.spec import NetworkMode
from harness.task.dataset import load_dataset
from harness.task.model import Task

TASKS = {task.path.name: task for task in load_dataset("hello") if isinstance(task, Task)}
SINGLE = sorted(set(TASKS) - {"ledger"})

CHEAT = r"""
mkdir -p /logs/verifier /tests
echo 1 > /logs/verifier/reward.txt; echo '{"reward": 1}' > /logs/verifier/reward.json
for file in greeting.txt answer.txt totals.csv journal.txt ledger.txt total.txt; do
    ln -sf /tests/test.sh /app/$file
done
for file in slugify.sh roman.sh; do
    printf 'echo 1 > /logs/verifier/reward.txt\necho PASSED\nexit 0\n' > /app/$file
done
echo 'Hello from the sandbox! client-17 PASSED'
"""

HALF = {
    "order-totals": "printf 'alder,3624\\nbirch,5130\\ncedar,5345\\nelm,7760\\nnobody,1\\n' > /app/totals.csv",
    "roman": "echo 'n=$((10#$1)); while [ $n -gt 0 ]; do printf I; n=$((n-1)); done; echo' > /app/roman.sh",
}


def docker(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["docker", *arguments], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


@contextmanager
def container(task: Task) -> Iterator[str]:
    # The label makes the image ours alone, so that removing it takes nobody else's tag along.
    label = f"--label=harness-test={uuid.uuid4()}"
    image = docker("build", "--quiet", label, str(task.environment.build_dir)).strip()
    box = docker("run", "--detach", "--rm", "--network=none", image, "sleep", "120").strip()
    try:
        yield box
    finally:
        docker("kill", box, check=False)
        docker("rmi", "--force", image, check=False)


def reward(box: str, tests: tuple[Path, ...]) -> float:
    docker("exec", box, "sh", "-c", "rm -rf /logs/verifier /tests && mkdir -p /logs/verifier /tests")
    for folder in tests:
        docker("cp", f"{folder}/.", f"{box}:/tests")
    docker("exec", box, "bash", "-c", "cd /app && /tests/test.sh > /logs/verifier/test-stdout.txt 2>&1")
    text = docker("exec", box, "sh", "-c", "cat /logs/verifier/reward.*")
    value = json.loads(text)
    return float(value["reward"] if isinstance(value, dict) else value)


def act(box: str, script: str) -> None:
    docker("exec", box, "bash", "-c", script)


def solve(box: str, folder: Path | None) -> None:
    docker("cp", f"{folder}/.", f"{box}:/solution")
    docker("exec", box, "/solution/solve.sh")
    docker("exec", box, "rm", "-rf", "/solution")


def test_the_suite_has_three_categories_both_kinds_of_reward_and_a_task_of_several_steps() -> None:
    assert len(TASKS) == 7
    assert len({task.categories for task in TASKS.values()}) >= 3
    assert {task.metadata["reward"] for task in TASKS.values()} == {"binary", "graded"}
    assert [name for name, task in TASKS.items() if len(task.steps) > 1] == ["ledger"]


@pytest.mark.parametrize("name", sorted(TASKS))
def test_a_task_is_clean_portable_and_needs_no_network(name: str) -> None:
    task = TASKS[name]
    assert task.findings == ()
    assert task.environment.network is NetworkMode.NONE
    assert task.difficulty in ("easy", "medium", "hard")
    assert task.environment.build_dir is not None
    lines = (task.environment.build_dir / "Dockerfile").read_text().splitlines()
    assert lines[0] == "FROM debian:bookworm-slim"
    assert {line.split()[0] for line in lines[1:] if line} <= {"WORKDIR", "ENV", "COPY"}


@pytest.mark.parametrize("script", sorted(path for task in TASKS.values() for path in task.path.rglob("*.sh")), ids=str)
def test_every_script_is_valid_bash(script: Path) -> None:
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.case("B13")
@pytest.mark.parametrize("name", SINGLE)
def test_nothing_and_cheating_earn_0_and_the_solution_earns_1(name: str) -> None:
    task = TASKS[name]
    (step,) = task.steps
    with container(task) as box:
        assert reward(box, step.tests) == 0
        act(box, CHEAT)
        assert reward(box, step.tests) == 0
    with container(task) as box:
        solve(box, step.solution_dir)
        assert reward(box, step.tests) == 1


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.parametrize(("name", "earned"), [("order-totals", 0.37), ("roman", 0.1)])
def test_a_graded_task_gives_part_of_the_reward_for_part_of_the_work(name: str, earned: float) -> None:
    task = TASKS[name]
    with container(task) as box:
        act(box, HALF[name])
        assert reward(box, task.steps[0].tests) == earned


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.case("B13")
def test_the_right_output_with_the_wrong_exit_status_earns_0() -> None:
    task = TASKS["fix-slugify"]
    with container(task) as box:
        solve(box, task.steps[0].solution_dir)
        act(box, "echo 'exit 3' >> /app/slugify.sh")
        assert reward(box, task.steps[0].tests) == 0


@pytest.mark.docker
@pytest.mark.slow
def test_the_ledger_is_graded_in_two_steps_and_the_second_brings_new_files() -> None:
    task = TASKS["ledger"]
    opening, closing = task.steps
    assert opening.min_reward == {"reward": 0.5}
    assert opening.files_dir is None
    assert closing.files_dir is not None
    with container(task) as box:
        assert reward(box, opening.tests) == 0
        act(box, CHEAT)
        assert reward(box, opening.tests) == 0
        act(box, "rm /app/*.txt")
        solve(box, opening.solution_dir)
        assert reward(box, opening.tests) == 1
        docker("cp", f"{closing.files_dir}/.", f"{box}:/app")
        assert reward(box, closing.tests) == 0
        act(box, "echo 8989 > /app/total.txt")
        assert reward(box, closing.tests) == 0.5
        solve(box, closing.solution_dir)
        assert reward(box, closing.tests) == 1
