"""What every test relies on: which tests run here, and that each leaves nothing behind."""

from __future__ import annotations

import asyncio
import functools
import http.client
import importlib.util
import inspect
import os
import re
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, settings
from left_out import LeftOut, is_ci, leave_out

settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")

# Small models gain nothing from a second thread, and several test processes' threads wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Under nohup, or in a script's background. Processes that tests start inherit an ignored signal, but no handler.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_GRACE_SEC = 2.0
_PER_PROCESS = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver", b"backends/local/doorman.py")
"""Helpers that a process starts once and that end with it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="run the tests marked slow (CI=true does, too)")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the files that import an SDK which is not installed: `daytona/`, `test_daytona_*.py`."""
    name = collection_path.name
    missing = [sdk for sdk in _missing_sdks() if name == sdk or name.startswith(f"test_{sdk}_")]
    return True if missing else None


@functools.cache
def _missing_sdks() -> list[str]:
    if is_ci():  # where they are missing, the import says so
        return []
    return [name for name in ("daytona", "e2b", "modal") if importlib.util.find_spec(name) is None]


def _leave_out_clouds(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The tests that have a cloud's name among their parameters, where its SDK is not installed."""

    def missing(item: pytest.Item) -> bool:
        parts = item.callspec.id.split("-") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
        return any(sdk in parts for sdk in _missing_sdks())

    left_out = [item for item in items if missing(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not missing(item)]


@pytest.hookimpl(trylast=True)  # after -k and -m have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _leave_out_clouds(config, items)
    _leave_out_slow(config, items)
    docker = [item for item in items if item.get_closest_marker("docker")]
    if not docker or engine_answers():
        return
    if is_ci() or os.environ.get("REQUIRE_DOCKER") == "1":
        raise pytest.UsageError(
            f"{len(docker)} docker tests are required here, but no engine answers at {engine_url()}"
        )
    config.stash[_DOCKER_LEFT_OUT] = len(docker)
    for item in docker:
        item.add_marker(pytest.mark.skip(reason=f"no engine answers at {engine_url()}"))


def _leave_out_slow(config: pytest.Config, items: list[pytest.Item]) -> None:
    if is_ci() or config.getoption("--run-slow") or "slow" in config.getoption("-m"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.stash[_SLOW_LEFT_OUT] = len(slow)
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("live"):
        if missing := [name for name in mark.args if not os.environ.get(name)]:
            leave_out(f"live: set {' and '.join(missing)}")
    if item.get_closest_marker("root") and os.geteuid() != 0:
        leave_out("needs root")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return _required(report, call)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return _required(report, getattr(report, "call", None))


_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)


def _required(report: _Report, call: pytest.CallInfo[Any] | None) -> _Report:
    """A skip as it is taken here: in CI as a failure, unless it is one that CI takes."""
    taken = call is not None and call.excinfo is not None and isinstance(call.excinfo.value, LeftOut)
    if is_ci() and report.skipped and not taken and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI forbids: {_reason(report)}"
    return report


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return re.sub(r"^(Skipped|left_out\.LeftOut): ", "", reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if number := config.stash.get(_DOCKER_LEFT_OUT, 0):
        terminalreporter.write_line(f"docker tests skipped ({number}): no engine answers at {engine_url()}")
    for sdk in _missing_sdks():
        terminalreporter.write_line(f"{sdk} tests left out: pip install 'harness-rl[{sdk}]'")
    if number := config.stash.get(_SLOW_LEFT_OUT, 0):
        terminalreporter.write_line(f"slow tests left out ({number}): --run-slow or CI=true runs them")
    if is_ci():
        for reason, number in Counter(map(_reason, terminalreporter.stats.get("skipped", ()))).items():
            terminalreporter.write_line(f"left out ({number}): {reason}")


_DOCKER_LEFT_OUT = pytest.StashKey[int]()
_SLOW_LEFT_OUT = pytest.StashKey[int]()


def engine_url() -> str:
    """Where the Docker engine is expected."""
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def engine_answers(timeout: float = 2.0) -> bool:
    """Whether an engine answers a ping: through its socket, so that the question needs no SDK."""
    url = urlsplit(engine_url())
    connection = http.client.HTTPConnection(url.hostname or "localhost", url.port or 2375, timeout=timeout)
    try:
        if url.scheme == "unix":
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(timeout)
            connection.sock.connect(url.path)
        connection.request("GET", "/_ping")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@pytest.fixture
def jobs_dir(tmp_path: Path) -> Path:
    """An empty folder for jobs."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def leaves_no_processes() -> Iterator[None]:
    """Fail a test that leaves a child process, a zombie included, behind."""
    before = _children()
    yield
    deadline = time.monotonic() + _GRACE_SEC
    while (left := _left_since(before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    if left:
        pytest.fail(f"the test left processes behind: {', '.join(map(_describe, sorted(left)))}")


def _children() -> set[int]:
    """Children of this process, of all its threads."""
    found: set[int] = set()
    for listing in Path("/proc/self/task").glob("*/children"):
        try:
            found.update(map(int, listing.read_text().split()))
        except OSError:  # the thread ended meanwhile
            continue
    return found


def _left_since(before: set[int]) -> set[int]:
    """Those that came since, without the helpers. A helper, or a child of one, has another name once it has ended."""
    return {pid for pid in _children() - before if not any(name in _command_line(pid) for name in _PER_PROCESS)}


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _describe(pid: int) -> str:
    return f"{pid} ({_command_line(pid).replace(bytes(1), b' ').decode(errors='replace').strip() or 'zombie'})"


@pytest.fixture(autouse=True)
def leaves_no_tasks(request: pytest.FixtureRequest) -> None:
    """Fail an asynchronous test that leaves an asyncio task pending once its fixtures are torn down."""
    function = getattr(request, "function", None)
    if inspect.iscoroutinefunction(function):
        request.getfixturevalue("pending_tasks")


@pytest.fixture
async def pending_tasks() -> AsyncIterator[None]:
    """Compares the loop's tasks before and after; only asynchronous tests pay for it."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=_GRACE_SEC)
    if left:
        pytest.fail(f"the test left tasks pending: {', '.join(str(task.get_coro()) for task in left)}")
