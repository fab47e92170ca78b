"""Where a step is verified: in the agent's sandbox, or in one of the verifier's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.task.config import EnvironmentTable, StepTable, TaskConfig, VerifierTable


@dataclass(frozen=True, slots=True)
class VerifierSandbox:
    """What the verifier's own sandbox is made of.

    Attributes:
        table: its limits and variables.
        place: the table's name, for messages.
        image: a ready image; None builds `folder`.
        folder: where its Dockerfile is.
        has_tests: the image brings /tests itself, so none are uploaded.
    """

    table: EnvironmentTable
    place: str
    image: str | None
    folder: Path
    has_tests: bool


def verifier_sandbox(config: TaskConfig, step: StepTable | None, root: Path) -> VerifierSandbox | None:
    """None where the step is verified in the agent's sandbox.

    The closest definition wins: the step's before the task's, and in each a named image before a Dockerfile next to
    the tests. Where neither exists it is a second sandbox of the agent's kind, to which tests are uploaded.
    """
    levels: list[tuple[str, VerifierTable, Path]] = [("verifier", config.verifier, root / "tests")]
    if step is not None:
        levels.insert(0, ("steps.verifier", step.verifier, root / "steps" / step.name / "tests"))
    if next((verifier.mode for _, verifier, _ in levels if verifier.mode), "shared") == "shared":
        return None
    own = [(f"{place}.environment", verifier.environment) for place, verifier, _ in levels if verifier.environment]
    place, table = own[0] if own else ("environment", config.environment)
    for _, verifier, tests in levels:
        image = verifier.environment.docker_image if verifier.environment else None
        if image is not None or (tests / "Dockerfile").is_file() or any(tests.glob("docker-compose.y*ml")):
            return VerifierSandbox(table, place, image, tests, has_tests=True)
    image, folder = config.environment.docker_image, root / "environment"
    return VerifierSandbox(table, place, image, folder, has_tests=False)
