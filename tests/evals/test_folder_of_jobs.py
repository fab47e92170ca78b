"""Every command that reads a job says which ones there are where it is given the folder that holds them."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import harness


@pytest.mark.parametrize("command", ["show", "summary", "behaviour", "report", "export --to-rl"])
def test_a_folder_of_jobs_is_no_job_and_names_one(command: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "jobs" / name).mkdir(parents=True)
        (tmp_path / "jobs" / name / "lock.json").write_text("{}")
        (tmp_path / "jobs" / name / "result.json").write_text('{"n_total_trials": 1}')
    more = ["-o", "rows"] if command.startswith("export") else []
    done = harness(*command.split(), "jobs", *more, cwd=tmp_path)
    assert (done.code, done.err) == (2, "error: jobs holds jobs, and is none; name one, e.g. jobs/two\n")
