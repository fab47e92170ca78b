"""A whole job with a model behind an endpoint: five lines of harness.toml away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import make_task
from local_boxes import local_provider
from model_server import call, completion, failure, serving

from harness.atif.reader import findings, load_trajectory
from harness.failures import Outcome
from harness.job.config import JobConfig
from harness.job.runner import run_job
from harness.store.layout import JobPaths, TrialPaths

GRADE = "#!/bin/sh\nif [ -s /app/hello.txt ]; then r=1; else r=0; fi; echo $r > /logs/verifier/reward.txt\n"


@pytest.fixture
async def isolating() -> None:
    """Skips where the local backend cannot isolate."""
    async with local_provider():
        pass


def job(folder: Path, url: str) -> JobConfig:
    """One attempt of one task by the model at `url`."""
    make_task(folder / "tasks", test=GRADE)
    (folder / "harness.toml").write_text(
        f'[agents.mymodel]\ntype = "tool_calling"\nmodel = "m"\nbase_url = "{url}"\nmax_retries = 1\n'
    )
    return JobConfig(
        dataset=str(folder / "tasks"), agent="mymodel", config_file=str(folder / "harness.toml"), max_retries=0
    )


def only_trial(paths: JobPaths) -> TrialPaths:
    (result,) = paths.root.glob("*/result.json")
    return TrialPaths(result.parent)


@pytest.mark.usefixtures("isolating")
async def test_what_a_served_model_does_is_graded_and_recorded(tmp_path: Path, jobs_dir: Path) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    work = completion(calls=[("c1", "bash", '{"command": "echo hello > hello.txt"}')], usage=usage)
    async with serving(work, call("finish", id="c2")) as server:
        paths = JobPaths(jobs_dir / "served")
        await run_job(job(tmp_path, server.url), paths)
    trial = only_trial(paths)
    result = json.loads(trial.result.read_text())
    assert (result["outcome"], result["reward"]) == (Outcome.SCORED, 1.0)
    assert (result["agent_result"]["n_input_tokens"], result["agent_result"]["incomplete"]) == (100, True)
    assert result["agent_info"]["name"] == "mymodel"
    trajectory = load_trajectory(trial.trajectory())
    assert findings(trajectory) == []
    assert [step.source for step in trajectory.steps] == ["system", "user", "agent", "agent"]


@pytest.mark.case("C6")
@pytest.mark.usefixtures("isolating")
async def test_an_endpoint_that_stays_busy_is_no_zero(tmp_path: Path, jobs_dir: Path) -> None:
    async with serving(failure(429, headers={"retry-after": "0"})) as server:
        paths = JobPaths(jobs_dir / "busy")
        await run_job(job(tmp_path, server.url), paths)
    result = json.loads(only_trial(paths).result.read_text())
    assert (result["outcome"], result["reward"]) == (Outcome.INFRA_ERROR, None)
    assert result["failure"]["tag"] == "model_rate_limited"
    assert len(server.requests) == 2


@pytest.mark.case("C5")
@pytest.mark.usefixtures("isolating")
async def test_an_overflow_is_graded_and_not_tried_again(tmp_path: Path, jobs_dir: Path) -> None:
    async with serving(call("ls"), failure(400, code="context_length_exceeded")) as server:
        paths = JobPaths(jobs_dir / "long")
        await run_job(job(tmp_path, server.url), paths)
    result = json.loads(only_trial(paths).result.read_text())
    assert (result["outcome"], result["reward"]) == (Outcome.SCORED, 0.0)
    assert "context_overflow" in json.dumps(result)
    assert len(server.requests) == 2
