"""The same work in the sandboxes of three clouds as on this machine: rewards, trajectories, and what trouble leaves.

The SDKs are real and unmodified; the services are loopback control planes whose sandboxes are namespaces of this
machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from command_line import REPO, by_task
from controlplanes.cloud import CLOUDS, Cloud, cloud

from harness.job.config import JobConfig
from harness.job.runner import run_job
from harness.store.layout import JobPaths

REPLIES = REPO / "examples" / "01-scripted-agent" / "replies.toml"
LOCAL = pytest.param("local")
DOCKER = pytest.param("docker", marks=pytest.mark.docker)
CREDENTIALS = ("E2B_", "DAYTONA_", "MODAL_")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(params=CLOUDS)
async def plane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cloud]:
    async with cloud(request.param) as running:
        for name in [name for name in os.environ if name.startswith(CREDENTIALS)]:
            monkeypatch.delenv(name)
        for name, value in running.env.items():
            monkeypatch.setenv(name, value)
        if running.name == "daytona":
            import daytona._async.object_storage as storage
            from controlplanes.plain_storage import plain_store

            monkeypatch.setattr(storage, "S3Store", plain_store)
        yield running


async def run(folder: Path, backend: str, **fields: Any) -> Path:
    """A job on the hello suite, all of whose attempts were scored."""
    paths = JobPaths(folder / backend)
    outcome = await run_job(JobConfig(dataset="hello", backend=backend, **fields), paths)
    assert outcome.summary.counts["scored"] == outcome.summary.n_total
    return paths.root


def rewards(job: Path) -> dict[str, float]:
    return {task: record["reward"] for task, record in by_task(job).items()}


def steps(job: Path) -> list[Any]:
    """The one trajectory of a job, without what differs from run to run: times and ids.

    And without `oom`, which stands only where the sandbox shows its kernel's counter: docker's do, these boxes do not.
    """
    (path,) = job.glob("*/agent/trajectory.json")
    varies = {"timestamp", "duration_sec", "llm_sec", "tool_call_id", "source_call_id", "oom"}

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items() if key not in varies}
        return [plain(each) for each in value] if isinstance(value, list) else value

    return list(plain(json.loads(path.read_text())["steps"]))


async def test_the_oracle_earns_in_every_cloud_what_it_earns_on_this_machine(plane: Cloud, tmp_path: Path) -> None:
    remote = rewards(await run(tmp_path, plane.name))
    assert remote == rewards(await run(tmp_path, "local"))
    assert (len(remote), set(remote.values())) == (7, {1.0})
    assert plane.left == []


@pytest.mark.parametrize("reference", [LOCAL, DOCKER])
async def test_a_scripted_agent_leaves_in_every_cloud_the_same_trajectory(
    reference: str, plane: Cloud, tmp_path: Path
) -> None:
    fields: dict[str, Any] = {
        "include": ("hello/greeting",),
        "agent": "scripted",
        "options": {"script": str(REPLIES)},
    }
    remote, here = await run(tmp_path, plane.name, **fields), await run(tmp_path, reference, **fields)
    assert rewards(remote) == rewards(here) == {"hello/greeting": 1.0}
    assert steps(remote) == steps(here)
    assert plane.left == []
