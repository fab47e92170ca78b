"""Every example runs as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*/run.sh")), ids=lambda path: path.parent.name)
def test_an_example_runs_as_it_stands(script: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [script, tmp_path],
        capture_output=True,
        text=True,
        timeout=170,
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
