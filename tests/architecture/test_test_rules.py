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
    (folder / "tests").mkdir(parents=True)
    shutil.copy(repo / "tests" / "left_out.py", folder / "tests")
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


def test_what_is_skipped_has_failed_in_ci_except_what_it_does_not_promise(tmp_path: Path, repo: Path) -> None:
    source = (
        "import pytest\n"
        "from left_out import leave_out\n"
        "def test_lacks_a_program(): pytest.skip('no program here')\n"
        "@pytest.mark.skipif(True, reason='no server here')\n"
        "def test_lacks_a_server(): pass\n"
        "@pytest.fixture\n"
        "def browser(): pytest.skip('no browser here')\n"
        "def test_lacks_a_browser(browser): pass\n"
        "def test_offers_nothing(): leave_out('has one user')\n"
        "@pytest.mark.live('CLOUD_ID', 'CLOUD_KEY')\n"
        "def test_live(): pass\n"
    )
    code, out = pytest_on(tmp_path, repo, source, CI="true")
    assert code == 1
    assert "1 failed, 2 skipped, 2 errors" in out
    assert all(f"skipped, which CI forbids: no {what} here" in out for what in ("program", "server", "browser"))
    assert "left out (1): has one user\nleft out (1): live: set CLOUD_ID and CLOUD_KEY\n" in out


def test_a_file_whose_packages_are_missing_fails_in_ci(tmp_path: Path, repo: Path) -> None:
    source = "import pytest\npytest.importorskip('no_such_package')\n"
    code, out = pytest_on(tmp_path, repo, source, CI="true")
    assert (code, "skipped, which CI forbids: could not import 'no_such_package'" in out) == (2, True)


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


def test_a_test_is_not_blamed_for_a_helper_that_was_there_before_it(tmp_path: Path, repo: Path) -> None:
    source = (
        "import pathlib, subprocess, time\n"
        "kept, go = [], pathlib.Path(__file__).with_name('go')\n"
        "def test_starts():\n"
        "    script = f'until [ -e {go} ]; do read -t 0.05 <> <(:); done; exec sleep 4'\n"
        "    kept.append(subprocess.Popen(['bash', '-c', script, 'backends/local/doorman.py']))\n"
        "def test_is_innocent():\n"
        "    go.touch()\n"
        "    while b'doorman' in pathlib.Path(f'/proc/{kept[0].pid}/cmdline').read_bytes(): time.sleep(0.02)\n"
    )
    code, out = pytest_on(tmp_path, repo, source)
    assert code == 0, out
