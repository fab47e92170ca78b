"""Files and tables become steps: what is inherited, what is merged, and where verification happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.spec import NetworkMode
from harness.task.loader import load_task
from harness.task.model import Artifact, BrokenTask, Limit, Task
from harness.task.scaffold import write_task

TWO_STEPS = """
artifacts = ["/app/out"]
multi_step_reward_strategy = "final"
[agent]
timeout_sec = 100.0
user = "worker"
[verifier]
timeout_sec = 10.0
env = {A = "task", B = "task"}
[solution]
env = {KEY = "${KEY}"}
[[steps]]
name = "one"
min_reward = 0.5
[[steps]]
name = "two"
min_reward = {reward = 1.0, style = 0.2}
artifacts = [{source = "/app/log", destination = "kept.txt", exclude = ["*.tmp"]}]
[steps.agent]
timeout_sec = 7.0
user = 0
[steps.verifier]
env = {B = "step"}
[steps.healthcheck]
command = "test -e ready"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_task(tmp_path, "demo")


def put(folder: Path, name: str, text: str = "") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def load(folder: Path, toml: str) -> Task:
    put(folder, "task.toml", toml)
    task = load_task(folder)
    assert isinstance(task, Task), task
    return task


def refusal(folder: Path, toml: str) -> BrokenTask:
    put(folder, "task.toml", toml)
    task = load_task(folder)
    assert isinstance(task, BrokenTask), task
    return task


def test_a_plain_task_is_one_step_without_a_name(folder: Path) -> None:
    task = load(folder, "")
    (step,) = task.steps
    assert step.name is None
    assert step.instruction == "Create the file `/app/answer.txt` with the single line `42`.\n"
    assert step.tests == (folder / "tests",)
    assert step.solution_dir == folder / "solution"
    assert step.files_dir is None
    assert step.verifier_environment is None
    assert task.environment.build_dir == folder / "environment"


def test_steps_inherit_from_the_task_and_override_it(folder: Path) -> None:
    for name in ("one", "two"):
        put(folder, f"steps/{name}/instruction.md", f"Do {name}.")
    put(folder, "steps/two/tests/extra.txt")
    put(folder, "steps/two/solution/solve.sh")
    put(folder, "steps/two/workdir/setup.sh")
    task = load(folder, TWO_STEPS)
    one, two = task.steps
    assert task.reward_strategy == "final"
    assert (one.name, one.instruction, two.instruction) == ("one", "Do one.", "Do two.")
    assert one.tests == (folder / "tests",)
    assert two.tests == (folder / "tests", folder / "steps/two/tests")
    assert one.solution_dir == folder / "solution"
    assert two.solution_dir == folder / "steps/two/solution"
    assert (one.files_dir, two.files_dir) == (None, folder / "steps/two/workdir")
    assert one.agent_timeout == Limit(value=100, origin="task")
    assert two.agent_timeout == Limit(value=7, origin="task")
    assert two.verifier_timeout == Limit(value=10, origin="task")
    assert (one.agent_user, two.agent_user) == ("worker", "0")
    assert two.verifier_env == {"A": "task", "B": "step"}
    assert one.solution_env == {"KEY": "${KEY}"}
    assert one.min_reward == {"reward": 0.5}
    assert two.min_reward == {"reward": 1.0, "style": 0.2}
    assert two.healthcheck is not None and one.healthcheck is None
    assert one.artifacts == (Artifact(source="/app/out", destination="app/out"),)
    assert two.artifacts[1] == Artifact(source="/app/log", destination="kept.txt", exclude=("*.tmp",))


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("steps/one", "steps/one"),
        ("steps/one/instruction.md", "steps/one/instruction.md is missing"),
        ("tests/test.sh", "steps/one/tests/test.sh is missing"),
    ],
)
def test_a_step_needs_its_folder_its_instruction_and_a_test(folder: Path, missing: str, words: str) -> None:
    for name in ("one", "two"):
        put(folder, f"steps/{name}/instruction.md", "Do.")
    path = folder / missing
    if path.is_dir():
        (path / "instruction.md").unlink()
        path.rmdir()
    else:
        path.unlink()
    assert words in refusal(folder, TWO_STEPS).reason


def test_leading_canaries_are_not_shown_to_the_agent(folder: Path) -> None:
    put(folder, "instruction.md", "<!-- a CANARY 1234 -->\n# another canary\n\n\nDo it.\n\n# canary inside stays\n")
    (step,) = load(folder, "").steps
    assert step.instruction == "Do it.\n\n# canary inside stays\n"


def test_a_ready_image_needs_no_dockerfile_and_gets_the_loose_files(folder: Path) -> None:
    (folder / "environment/Dockerfile").unlink()
    assert "Dockerfile is missing" in refusal(folder, "").reason
    task = load(folder, "[environment]\ndocker_image = 'debian:bookworm-slim'")
    assert (task.environment.image, task.environment.build_dir) == ("debian:bookworm-slim", None)
    assert task.steps[0].files_dir is None
    put(folder, "environment/data.txt")
    task = load(folder, "[environment]\ndocker_image = 'debian:bookworm-slim'")
    assert task.steps[0].files_dir == folder / "environment"


@pytest.mark.parametrize("name", ["docker-compose.yaml", "docker-compose.yml"])
def test_services_are_unsupported_even_next_to_an_image(folder: Path, name: str) -> None:
    put(folder, f"environment/{name}")
    assert refusal(folder, "").unsupported
    assert refusal(folder, "[environment]\ndocker_image = 'x'").unsupported


def test_separate_without_a_definition_is_a_second_sandbox_of_the_same_kind(folder: Path) -> None:
    task = load(folder, "[verifier]\nenvironment_mode = 'separate'\n[environment]\ncpus = 2")
    (step,) = task.steps
    assert step.verifier_environment is not None
    assert step.verifier_environment.build_dir == folder / "environment"
    assert step.verifier_environment.resources.cpus == 2
    assert step.tests == (folder / "tests",)


def test_a_dockerfile_next_to_the_tests_brings_the_tests_along(folder: Path) -> None:
    put(folder, "tests/Dockerfile", "FROM debian:bookworm-slim\nCOPY . /tests\n")
    task = load(folder, "[verifier.environment]\nmemory_mb = 64\nnetwork_mode = 'no-network'")
    (step,) = task.steps
    assert step.verifier_environment is not None
    assert step.verifier_environment.build_dir == folder / "tests"
    assert step.verifier_environment.resources.memory_mb == 64
    assert step.verifier_environment.network is NetworkMode.NONE
    assert task.environment.network is NetworkMode.FULL
    assert step.tests == ()


def test_an_image_named_for_the_verifier_wins_over_a_dockerfile(folder: Path) -> None:
    put(folder, "tests/Dockerfile", "FROM debian:bookworm-slim\n")
    (step,) = load(folder, "[verifier.environment]\ndocker_image = 'grader:1'").steps
    assert step.verifier_environment is not None
    assert (step.verifier_environment.image, step.tests) == ("grader:1", ())


def test_a_step_can_verify_elsewhere_than_its_task(folder: Path) -> None:
    put(folder, "steps/one/instruction.md", "Do.")
    put(folder, "steps/two/instruction.md", "Do.")
    one, two = load(
        folder,
        "[verifier]\nenvironment_mode = 'separate'\n[[steps]]\nname = 'one'\n[[steps]]\nname = 'two'\n"
        "[steps.verifier]\nenvironment_mode = 'shared'",
    ).steps
    assert one.verifier_environment is not None
    assert two.verifier_environment is None


def test_phases_that_agree_on_a_network_set_it(folder: Path) -> None:
    toml = "[agent]\nnetwork_mode = 'no-network'\n[verifier]\nnetwork_mode = 'no-network'"
    assert load(folder, toml).environment.network is NetworkMode.NONE
    separate = "[agent]\nnetwork_mode = 'no-network'\n[verifier]\nenvironment_mode = 'separate'"
    task = load(folder, separate)
    assert task.environment.network is NetworkMode.NONE
    assert task.steps[0].verifier_environment is not None
    assert task.steps[0].verifier_environment.network is NetworkMode.FULL


def test_a_prior_conversation_is_unsupported(folder: Path) -> None:
    put(folder, "trajectory.json", "{}")
    assert refusal(folder, "").unsupported
