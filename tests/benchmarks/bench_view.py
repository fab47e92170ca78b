"""The viewer with 20,000 trials, and with 200 MB of trajectories in one job: time to first byte, and memory.

Printed: milliseconds to the first byte of each page, the first time and as the median of seven more, the CPU time of
the server for the first, and its peak memory. Limits, of wall time or of the server's CPU time where a busy machine
stretches it: each page of 20,000 trials within a second the first time, and 400 MB; a trajectory of 1 MB within a
second. The jobs are written to memory (/dev/shm, where there is one) and removed afterwards.
"""

from __future__ import annotations

import http.client
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded import write_trajectory
from runs import write_job
from viewers import Viewer, viewer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CATEGORIES = ("coding", "memory", "recovery", "tool_usage", "file_operations", "planning")
TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def memory() -> Iterator[Path]:
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="bench-view-", dir=shared if shared.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def write_trials(folder: Path, tasks: int, attempts: int, *, turns: int, output: int) -> None:
    """A job whose trials share a few trajectories, by links."""
    ends = {f"suite/task-{n:04}": [float((n * 7 + k * 3) % 5 > 1) for k in range(attempts)] for n in range(tasks)}
    groups = {name: [CATEGORIES[n % len(CATEGORIES)]] for n, name in enumerate(ends)}
    write_job(folder, ends, categories=groups)
    kinds = [folder.parent / ".kinds" / str(number) for number in range(8)]
    for number, kind in enumerate(kinds):
        kind.mkdir(parents=True)
        said = {"agent": "I look at it.", "call": f"cat part-{number}", "output": "a line of output\n" * (output // 17)}
        write_trajectory(kind, [{"user": "Do it."}, *[said] * turns])
    for number, trial in enumerate(sorted(folder.glob("*/result.json"))):
        (trial.parent / "agent").mkdir()
        os.link(kinds[number % 8] / "agent" / "trajectory.json", trial.parent / "agent" / "trajectory.json")


def cpu(found: Viewer) -> float:
    """Seconds of CPU time that the server has used."""
    fields = Path(f"/proc/{found.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak(found: Viewer) -> float:
    """MB that the server has held at most."""
    status = Path(f"/proc/{found.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1000


def first_byte(found: Viewer, path: str) -> float:
    """Seconds until the answer begins; the rest of it is read, too."""
    connection = http.client.HTTPConnection(found.host, found.port, timeout=60)
    began = time.perf_counter()
    connection.request("GET", path, headers={"Cookie": found.cookie})
    answer = connection.getresponse()
    took = time.perf_counter() - began
    assert answer.status == 200, answer.read()[-300:]
    answer.read()
    connection.close()
    return took


def ask(found: Viewer, path: str) -> float:
    """Print what a page takes; the seconds of its first time, of CPU where the machine is busy."""
    before = cpu(found)
    wall = first_byte(found, path)
    busy = cpu(found) - before
    again = statistics.median(first_byte(found, path) for _ in range(7))
    print(f"{path:>46}: first {1000 * wall:6.0f} ms ({1000 * busy:.0f} CPU-ms), then {1000 * again:5.0f} ms")
    return min(wall, busy * 1.1)


def test_twenty_thousand_trials_open_within_a_second(memory: Path, tmp_path: Path) -> None:
    write_trials(memory / "jobs" / "large", 2500, 8, turns=4, output=200)
    with viewer(memory / "jobs", tmp_path) as found:
        print(f"\nwithout an index: first page {1000 * first_byte(found, '/'):.0f} ms", end="")
        began, used = time.perf_counter(), cpu(found)
        while "Reading the folders" in found.get("/").text:
            time.sleep(0.5)
        wall, busy = time.perf_counter() - began, cpu(found) - used
        print(f", all read after {wall:.0f} s, {busy:.0f} CPU-s; {peak(found):.0f} MB")
    with viewer(memory / "jobs", tmp_path) as found:
        found.indexed()
        pages = ["/", "/trials", "/trials?q=job%3Dlarge&page=150", "/trials?q=category%3Dmemory+reward%3D0+tool%3Dbash"]
        pages += ["/job/large", "/behaviour/large", "/trial/large/t0000__1", "/figures/large"]
        took = {path: ask(found, path) for path in pages}
        print(f"{'peak memory':>46}: {peak(found):.0f} MB")
        slow = {path for path, seconds in took.items() if seconds > 1}
        assert slow <= {"/behaviour/large", "/figures/large"}, "what is asked for on its own may take longer"
        assert peak(found) <= 400


def test_200_mb_of_trajectories_in_one_job(memory: Path, tmp_path: Path) -> None:
    write_trials(memory / "jobs" / "heavy", 25, 8, turns=100, output=10_000)
    size = sum(path.stat().st_size for path in (memory / "jobs" / "heavy").glob("*/agent/trajectory.json")) / 1e6
    print(f"\n{size:.0f} MB of trajectories in 200 trials")
    with viewer(memory / "jobs", tmp_path) as found:
        found.indexed()
        for path in ("/job/heavy", "/trials?q=job%3Dheavy", "/trial/heavy/t0000__1?step=100", "/files/heavy/t0000__1"):
            ask(found, path)
        assert ask(found, "/trial/heavy/t0000__1") <= 1
        for task in range(25):
            for attempt in range(1, 9):
                first_byte(found, f"/trial/heavy/t{task:04}__{attempt}?from=51")
        print(f"{'peak memory, every trajectory seen':>46}: {peak(found):.0f} MB")
        assert peak(found) <= 400
