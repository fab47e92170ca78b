"""What a report costs: a page of 2,000 trials in under 10 s and 300 MB, the reading of every trajectory included."""

from __future__ import annotations

import math
import resource
import subprocess
import time
from pathlib import Path

import pytest
from command_line import command, environment
from recorded import realistic_job


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_report_of_two_thousand_trials_takes_less_than_ten_seconds_and_300_mb(tmp_path: Path) -> None:
    job, page = realistic_job(tmp_path / "job", tasks=100, attempts=20, seed=1), tmp_path / "report.html"
    argv = command("report", job, "-o", page, "--figures", tmp_path / "figures")
    wall, cpu = math.inf, math.inf
    for _ in range(2):
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall = min(wall, time.perf_counter() - started)
        cpu = min(cpu, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.returncode == 0, done.stderr
    peak, size = after.ru_maxrss / 1024, page.stat().st_size / 1e6
    print(f"\nreport of 2,000 trials: {wall:.2f} s wall, {cpu:.2f} s CPU, peak {peak:.0f} MB, {size:.1f} MB of HTML")
    assert min(wall, cpu * 1.1) <= 10, "CPU decides on a machine that does other things beside it"
    assert peak <= 300
