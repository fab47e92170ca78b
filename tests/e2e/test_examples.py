"""Every example runs as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


SLOW = {"flywheel"}


def examples() -> list[Any]:
    """Their scripts; those that train a model are slow."""
    return [
        pytest.param(path, id=path.parent.name, marks=[pytest.mark.slow] if path.parent.name in SLOW else [])
        for path in sorted(EXAMPLES.glob("*/run.sh"))
    ]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("script", examples())
def test_an_example_runs_as_it_stands(script: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [script, tmp_path],
        capture_output=True,
        text=True,
        timeout=390,
        env={**os.environ, "PATH": path},
        cwd=tmp_path,
    )
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_every_example_is_in_the_list() -> None:
    text = (EXAMPLES / "README.md").read_text()
    assert all(f"({folder.name}/)" in text for folder in EXAMPLES.iterdir() if folder.is_dir())
