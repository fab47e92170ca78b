"""The rules that every test runs under, tried on small suites: what is left out, required, and never left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

NOBODY = "unix:///nonexistent/docker.sock"
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name not in {"CI", "REQUIRE_DOCKER", "PYTEST_ADDOPTS"}
}

SUITE = """
import pytest

def test_quick(): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.docker
def test_docker(): pass
"""


def pytest_on(folder: Path, repo: Path, source: str, *argv: str, **environment: str) -> tuple[int, str]:
    """Run a suite under the rules of this one; its exit code and what it printed."""
    shutil.copy(repo / "tests" / "conftest.py", folder)
    shutil.copy(repo / "pyproject.toml", folder)
    (folder / "test_suite.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *argv, "test_suite.py"],
        cwd=folder,
        env={**ENVIRONMENT, "DOCKER_HOST": NOBODY, **environment},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_developer_is_told_in_a_line_each_what_did_not_run(tmp_path: Path, repo: Path) -> None:
    code, out = pytest_on(tmp_path, repo, SUITE)
    assert code == 0
    assert "1 passed, 1 skipped, 1 deselected" in out
    assert f"docker tests skipped (1): no engine answers at {NOBODY}\n" in out
    assert "slow tests left out (1): --run-slow or CI=true runs them\n" in out


def test_slow_tests_run_when_asked_for(tmp_path: Path, repo: Path) -> None:
    code, out = pytest_on(tmp_path, repo, SUITE, "--run-slow")
    assert code == 0
    assert "2 passed, 1 skipped" in out


@pytest.mark.parametrize("demand", ["CI", "REQUIRE_DOCKER"])
def test_where_an_engine_is_required_its_absence_fails_the_run(demand: str, tmp_path: Path, repo: Path) -> None:
    code, out = pytest_on(tmp_path, repo, SUITE, **{demand: "true" if demand == "CI" else "1"})
    assert code != 0
    assert f"1 docker tests are required here, but no engine answers at {NOBODY}" in out
    assert "passed" not in out


def test_a_run_without_docker_tests_needs_no_engine(tmp_path: Path, repo: Path) -> None:
    code, out = pytest_on(tmp_path, repo, SUITE, "-m", "not docker", CI="true")
    assert code == 0
    assert "2 passed, 1 deselected" in out


def test_a_process_or_a_task_left_behind_fails_the_test_that_left_it(tmp_path: Path, repo: Path) -> None:
    source = (
        "import asyncio, subprocess\n"
        "kept = []\n"
        "def test_process(): kept.append(subprocess.Popen(['sleep', '3']))\n"
        "async def test_task(): kept.append(asyncio.create_task(asyncio.sleep(60)))\n"
        "async def test_clean():\n"
        "    process = await asyncio.create_subprocess_exec('true')\n"
        "    await process.wait()\n"
    )
    code, out = pytest_on(tmp_path, repo, source)
    assert code == 1
    assert "3 passed, 2 errors" in out
    assert "the test left processes behind" in out
    assert "the test left tasks pending" in out
