"""Importing the packages, and asking for help, costs little and loads no SDK."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    *("torch", "transformers", "numpy", "scipy", "pandas", "ray", "sqlalchemy"),
    *("docker", "aiodocker", "aiohttp", "modal", "daytona", "e2b"),
    *("openai", "langsmith", "opentelemetry"),
}


def _loaded_by(code: str, repo: Path) -> list[str]:
    """Which heavy packages a fresh interpreter has loaded after `code`."""
    program = f"import sys\n{code}\nprint('LOADED', *sorted(set(sys.modules) & {HEAVY!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=repo, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize("package", ["backends", "harness", "evals", "trainer"])
def test_importing_a_package_loads_nothing_heavy(package: str, repo: Path) -> None:
    assert _loaded_by(f"import {package}", repo) == []


@pytest.mark.parametrize("name", ["daytona", "docker", "e2b", "modal"])
def test_a_backend_loads_its_own_sdk_and_no_other(name: str, repo: Path) -> None:
    code = (
        f"from backends.registry import BUILT_IN\nimport importlib\nimportlib.import_module(BUILT_IN[{name!r}].module)"
    )
    assert set(_loaded_by(code, repo)) & {"docker", "modal", "daytona", "e2b"} <= {name}


def test_help_loads_nothing_heavy_and_no_command(repo: Path) -> None:
    code = (
        "from harness.cli.main import main\n"
        "assert main(['--help']) == 0\n"
        "from harness.cli.commands import BUILT_IN\n"
        "assert not {row.target.partition(':')[0] for row in BUILT_IN.values()} & set(sys.modules)"
    )
    assert _loaded_by(code, repo) == []


def test_help_of_every_command_loads_nothing_heavy(repo: Path) -> None:
    code = (
        "from harness.cli.main import main\n"
        "from harness.cli.commands import command_rows\n"
        "for name in command_rows(): assert main([name, '--help']) == 0, name"
    )
    assert _loaded_by(code, repo) == []
