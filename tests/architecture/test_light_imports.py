"""Importing the packages, and asking for help, costs little and loads no SDK."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

HEAVY = {
    *("torch", "transformers", "tokenizers", "numpy", "scipy", "pandas", "pyarrow", "ray", "sqlalchemy", "psycopg"),
    *("matplotlib", "jinja2", "zstandard"),
    *("docker", "aiodocker", "aiohttp", "modal", "daytona", "e2b"),
    *("openai", "langsmith", "opentelemetry", "starlette", "uvicorn", "httpx"),
}
SDKS = {"docker", "aiodocker", "modal", "daytona", "e2b", "openai"}
CREDENTIALS = ("E2B_", "DAYTONA_", "MODAL_")


def _loaded_by(code: str, repo: Path, env: Mapping[str, str] | None = None) -> list[str]:
    """Which heavy packages a fresh interpreter has loaded after `code`."""
    program = f"import sys\n{code}\nprint('LOADED', *sorted(set(sys.modules) & {HEAVY!r}))"
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, cwd=repo, env=env, check=False, capture_output=True, text=True)
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


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["local", "daytona", "e2b", "modal"])
def test_a_run_loads_the_sdk_of_its_own_backend_only(backend: str, repo: Path, tmp_path: Path) -> None:
    # Without credentials a run ends where a backend has been made, asked, and found unable to work.
    env = {name: value for name, value in os.environ.items() if not name.startswith(CREDENTIALS)}
    chosen = ["run", "--suite", "hello", "--include", "hello/greeting", "--agent", "nop", "--backend", backend]
    code = (
        "from harness.cli.main import main\n"
        f"code = main({[*chosen, '--jobs-dir', str(tmp_path / 'jobs')]!r})\n"
        f"assert code == {0 if backend == 'local' else 2}, code"
    )
    loaded = _loaded_by(code, repo, {**env, "HOME": str(tmp_path)})
    assert set(loaded) & SDKS == {backend} - {"local"}
