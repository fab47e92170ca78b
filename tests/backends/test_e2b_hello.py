"""The bundled suite on a loopback E2B: the same rewards and the same trajectories as on the local backend."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from controlplanes.e2b import KEY, E2BPlane, e2b_plane

from harness.job.config import JobConfig
from harness.job.runner import run_job
from harness.store.layout import JobPaths

SCRIPT = """
[[tasks."hello/greeting"]]
text = "I look first."
calls = [{ name = "ls", arguments = { path = "/app" } }, { name = "bash", arguments = { command = "pwd; false" } }]
[[tasks."hello/greeting"]]
calls = [{ name = "bash", arguments = { command = "printf 'Hello from the sandbox!\\n' > /app/greeting.txt" } }]
"""


@pytest.fixture
async def plane(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[E2BPlane]:
    async with e2b_plane() as plane:
        for name, value in plane.env.items():
            monkeypatch.setenv(name, value)
        yield plane


async def run(folder: Path, backend: str, **fields: Any) -> JobPaths:
    paths = JobPaths(folder / backend)
    outcome = await run_job(JobConfig(dataset="hello", backend=backend, **fields), paths)
    assert outcome.summary.counts["scored"] == outcome.summary.n_total
    return paths


def rewards(paths: JobPaths) -> dict[str, float]:
    found = [json.loads(path.read_text()) for path in paths.root.glob("*/result.json")]
    return {record["task_name"]: record["reward"] for record in found}


def steps(paths: JobPaths) -> list[Any]:
    """A trajectory without what differs from run to run."""
    (path,) = paths.root.glob("*/agent/trajectory.json")

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            hidden = {"timestamp", "metrics", "tool_call_id", "source_call_id", "extra"}
            return {key: plain(each) for key, each in value.items() if key not in hidden}
        return [plain(each) for each in value] if isinstance(value, list) else value

    return list(plain(json.loads(path.read_text())["steps"]))


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_the_oracle_earns_what_it_earns_locally_and_nothing_is_left(plane: E2BPlane, tmp_path: Path) -> None:
    remote = rewards(await run(tmp_path, "e2b"))
    assert remote == rewards(await run(tmp_path, "local"))
    assert (len(remote), set(remote.values())) == (7, {1.0})
    assert plane.sandboxes == {}


async def test_a_scripted_agent_leaves_the_same_trajectory_as_locally(plane: E2BPlane, tmp_path: Path) -> None:
    (tmp_path / "script.toml").write_text(SCRIPT)
    fields: dict[str, Any] = {
        "include": ("hello/greeting",),
        "agent": "scripted",
        "options": {"script": str(tmp_path / "script.toml")},
    }
    remote = await run(tmp_path, "e2b", **fields)
    local = await run(tmp_path, "local", **fields)
    assert rewards(remote) == rewards(local) == {"hello/greeting": 1.0}
    assert steps(remote) == steps(local)


@pytest.mark.case("H5")
async def test_no_file_of_a_job_holds_the_key(plane: E2BPlane, tmp_path: Path) -> None:
    plane.faults.add("POST /v2/sandboxes$", status=500, times=1)
    paths = await run(tmp_path, "e2b", include=("hello/greeting",))
    files = [path for path in paths.root.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


async def test_trials_are_planned_by_the_sandboxes_that_may_live(plane: E2BPlane, tmp_path: Path) -> None:
    fields: dict[str, Any] = {"include": ("hello/greeting",), "n_attempts": 3, "n_concurrent": 8, "max_sandboxes": 1}
    await run(tmp_path, "e2b", **fields)
    assert (plane.most_alive, len(plane.created)) == (1, 3)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_with_one_call_in_ten_failing_every_trial_ends_rightly_and_nothing_is_left(
    plane: E2BPlane, tmp_path: Path
) -> None:
    plane.faults.add("sandboxes|Process/Start", times=float("inf"), status=500, share=0.05)
    plane.faults.add("sandboxes|Process/Start", times=float("inf"), reset=True, work=True, share=0.05)
    job = JobConfig(
        dataset="hello",
        backend="e2b",
        include=("hello/greeting",),
        n_attempts=12,
        max_retries=5,
        retry_base_sec=0.01,
    )
    outcome = await run_job(job, JobPaths(tmp_path / "j"))
    found = [json.loads(path.read_text()) for path in (tmp_path / "j").glob("*/result.json")]
    assert outcome.summary.counts["scored"] + outcome.summary.counts["infra_error"] == 12
    assert {each["reward"] for each in found if each["outcome"] == "scored"} == {1.0}
    assert len(found) == 12 + outcome.summary.n_retries, "a repetition without a record"
    plane.faults.clear()
    await asyncio.sleep(3)
    assert plane.sandboxes == {}
