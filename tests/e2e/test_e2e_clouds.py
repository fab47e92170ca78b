"""The same work in the sandboxes of three clouds as on this machine: rewards, trajectories, and what trouble leaves.

The SDKs are real and unmodified; the services are loopback control planes whose sandboxes are namespaces of this
machine.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from builders import make_task
from chat_program import PROGRAM
from command_line import REPO, records
from controlplanes.cloud import CLOUDS, Cloud, cloud
from model_server import serving
from policy_server import Policy

from backends import Readiness, create_provider
from backends.lifecycle import JOB, TRIAL
from backends.remote.launch import ATTEMPT
from harness.job.config import JobConfig
from harness.job.runner import run_job
from harness.store.layout import JobPaths
from harness.store.rollout import RolloutReader

REPLIES = REPO / "examples" / "01-scripted-agent" / "replies.toml"
LOCAL = pytest.param("local")
DOCKER = pytest.param("docker", marks=pytest.mark.docker)
GRADED = '#!/bin/sh\n[ "$(cat /app/hello.txt)" = hello ]; echo $((1 - $?)) > /logs/verifier/reward.txt\n'
AT_A_TIME = 24
CREDENTIALS = ("E2B_", "DAYTONA_", "MODAL_")

SCRIBE = """\
[agents.scribe]
type = "cli"
version = "1.0"
dialect = "chat"
command = 'python3 "$PREFIX/scribe.py"'
env = { API_BASE = "{base_url}", API_KEY = "{key}" }
ends = [{ stop = "finished", when = { wrote = true } }]
model = "policy"
capture = true
[agents.scribe.install]
script = '''
cat > "$PREFIX/scribe.py" <<'END'
PROGRAM
work(); print(json.dumps({"wrote": True}))
END
'''
""".replace("PROGRAM", PROGRAM)
SCRIBE_DOES = (
    ("Writing.", [("c1", "bash", json.dumps({"command": "echo hello > /app/hello.txt; cat /app/hello.txt"}))]),
    ("Done.", []),
)

N_TRIALS = int(os.environ.get("HARNESS_TEST_TRIALS", "60"))
RETRIES = 4

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180 + 2 * N_TRIALS)]


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


def scored(job: Path) -> dict[str, dict[str, Any]]:
    """The records of scored executions; an infrastructure failure before it, on a busy machine, is none."""
    return {name: record for name, record in records(job).items() if record["outcome"] == "scored"}


def rewards(job: Path) -> dict[str, float]:
    named = {record["task_name"]: record["reward"] for record in scored(job).values()}
    assert len(named) == len(scored(job)), "a task was scored more than once"
    return named


def steps(job: Path) -> list[Any]:
    """The one trajectory of a job, without what differs from run to run: times and ids.

    And without `oom`, which stands only where the sandbox shows its kernel's counter: docker's do, these boxes do not.
    """
    (name,) = scored(job)
    varies = {"timestamp", "duration_sec", "llm_sec", "tool_call_id", "source_call_id", "oom"}

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items() if key not in varies}
        return [plain(each) for each in value] if isinstance(value, list) else value

    return list(plain(json.loads((job / name / "agent" / "trajectory.json").read_text())["steps"]))


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


async def test_a_program_installed_once_works_in_a_cloud_whose_sandboxes_reach_nothing_and_leaves_its_tokens(
    plane: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_task(tmp_path / "tasks", "greet", test=GRADED)
    (tmp_path / "harness.toml").write_text(SCRIBE)
    policy = Policy(SCRIBE_DOES, each_alone=True)
    job = JobPaths(tmp_path / "job")
    async with serving(policy) as endpoint:
        config = JobConfig(
            dataset=str(tmp_path / "tasks"),
            backend=plane.name,
            agent="scribe",
            config_file=str(tmp_path / "harness.toml"),
            options={"base_url": endpoint.url},
            n_attempts=2,
            max_retries=0,
        )
        await run_job(config, job)
    found = records(job.root)
    assert [(each["outcome"], each["reward"], each["tags"]) for each in found.values()] == [("scored", 1.0, [])] * 2
    stored = [call for name in found for call in RolloutReader(job.root / name / "agent" / "rollout.bin")]
    kept = [(list(call.prompt_ids or ()), list(call.completion_ids or ())) for call in stored]
    assert sorted(kept) == sorted((prompt, ids) for prompt, ids, _ in policy.sampled)
    assert len(kept) == 2 * len(SCRIBE_DOES)
    assert len(plane.made) == 3, "one sandbox to install the program in, and one for each attempt"
    assert len(list((tmp_path / "cache" / "harness" / "layers").glob("*.tar.gz"))) == 1
    assert plane.left == []


async def test_an_agent_that_removes_the_shell_of_one_sandbox_after_the_other_has_failed(
    plane: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.remote.sandbox._PROBE_SEC", 0.1)
    make_task(tmp_path / "tasks", "vandal", solve="#!/bin/bash\nrm /bin\n")  # in these boxes, a link to usr/bin
    job = JobPaths(tmp_path / "job")
    config = JobConfig(dataset=str(tmp_path / "tasks"), backend=plane.name, max_retries=2, retry_base_sec=0.1)
    await run_job(config, job)
    ends = [(each["outcome"], each["failure"]["tag"], each["failure"]["layer"]) for each in records(job.root).values()]
    assert ends == [("infra_error", "sandbox_unusable", "sandbox"), ("agent_failed", "sandbox_unusable", "agent")]
    assert plane.left == []


async def test_with_a_tenth_of_all_calls_failing_every_attempt_ends_right_and_everything_is_accounted_for(
    plane: Cloud, tmp_path: Path
) -> None:
    make_task(tmp_path / "tasks", "greet", test=GRADED)
    config = JobConfig(
        dataset=str(tmp_path / "tasks"),
        backend=plane.name,
        n_attempts=N_TRIALS,
        n_concurrent=AT_A_TIME,
        max_retries=RETRIES,
        retry_base_sec=0.1,
    )
    # The plane has no rate to keep to.
    provider: Any = create_provider(plane.name, max_sandboxes=AT_A_TIME, creates_per_sec=1000)
    on_time = provider.check

    async def check() -> Readiness:
        ready: Readiness = await on_time()
        plane.break_calls(0.1, seed=7)  # a run that can not even begin is another story
        return ready

    provider.check = check
    job = JobPaths(tmp_path / "job")
    outcome = await run_job(config, job, provider=provider)
    plane.heal()

    executions: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for record in records(job.root).values():
        executions[record["attempt"]].append(record)
    assert sorted(executions) == list(range(1, N_TRIALS + 1))
    for found in executions.values():
        found.sort(key=lambda record: record["retry"])
        *failed, last = found
        assert [record["retry"] for record in found] == list(range(len(found)))
        assert all(record["outcome"] == "infra_error" and record["failure"]["retryable"] for record in failed)
        if last["outcome"] == "scored":
            assert last["reward"] == 1.0
        else:
            assert (last["outcome"], last["failure"]["layer"]) == ("infra_error", "sandbox"), last["failure"]
            assert last["retry"] == RETRIES or not last["failure"]["retryable"]
    counts = outcome.summary.counts
    print(f"\n{plane.name}: {N_TRIALS} attempts, {outcome.summary.n_executions} executions, {counts}")
    assert counts["scored"] + counts["infra_error"] == N_TRIALS
    assert counts["scored"] >= N_TRIALS * 0.9

    assert plane.left == []
    names = {record["trial_name"] for found in executions.values() for record in found}
    attempts = Counter(labels[ATTEMPT] for labels in plane.made)
    assert set(attempts.values()) == {1}, "one attempt to create made two sandboxes"
    assert {labels[TRIAL] for labels in plane.made} <= names
    assert len({labels[JOB] for labels in plane.made}) == 1
