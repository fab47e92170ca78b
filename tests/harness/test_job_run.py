"""A job from the outside: its folder, its numbers, and that interrupting it at any moment loses and repeats nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from builders import Heard, MemoryProvider, make_task

from backends.errors import SandboxUnavailable, SandboxUnusable
from backends.lifecycle import JOB, OWNER
from backends.remote.retry import repeated
from backends.spec import SandboxSpec
from harness.errors import UsageError
from harness.failures import Outcome
from harness.job.config import JobConfig
from harness.job.progress import summarise
from harness.job.runner import JobOutcome, RunningJob, resume_job, run_job
from harness.job.scheduler import Stopping
from harness.store.layout import JobPaths
from harness.trial.events import Event, TrialFinished, TrialStarted

DATA = Path(__file__).parent / "data" / "harbor-jobs"


def tasks(folder: Path, n: int) -> Path:
    for number in range(n):
        make_task(folder / "tasks", f"t{number:02}", test=f"#!/bin/sh\necho {number}\n")
    return folder / "tasks"


def config(dataset: Path, **fields: Any) -> JobConfig:
    return JobConfig(dataset=str(dataset), **{"agent": "nop", "retry_base_sec": 0.0, **fields})


async def run(folder: Path, job: JobConfig, provider: MemoryProvider | None = None, **options: Any) -> JobOutcome:
    return await run_job(job, JobPaths(folder / "jobs" / "j"), provider=provider or MemoryProvider(), **options)


async def resume(folder: Path, provider: MemoryProvider | None = None, **options: Any) -> JobOutcome:
    return await resume_job(JobPaths(folder / "jobs" / "j"), provider=provider or MemoryProvider(), **options)


def attempts(folder: Path) -> list[tuple[str, int]]:
    """Every finished attempt on disk, repetitions included."""
    found = [json.loads(path.read_text()) for path in folder.glob("jobs/j/*/result.json")]
    return sorted(
        (each["task_name"], each["attempt"]) for each in found if each["outcome"] in ("scored", "agent_failed")
    )


async def test_every_attempt_has_a_record_and_the_jobs_numbers_are_theirs(tmp_path: Path) -> None:
    outcome = await run(tmp_path, config(tasks(tmp_path, 3), n_attempts=2))
    assert attempts(tmp_path) == [(f"t{n:02}", k) for n in range(3) for k in (1, 2)]
    assert outcome.summary.rate().value == 1.0
    document = json.loads((tmp_path / "jobs/j/result.json").read_text())
    assert document["stats"]["n_completed_trials"] == document["n_total_trials"] == 6
    assert document["finished_at"] is not None
    summary, findings = summarise(JobPaths(tmp_path / "jobs/j"))
    assert summary.last == outcome.summary.last
    assert findings == []


async def test_attempts_of_a_task_run_next_to_each_other(tmp_path: Path) -> None:
    heard = Heard()
    await run(tmp_path, config(tasks(tmp_path, 3), n_attempts=2, n_concurrent=1), subscribers=[heard])
    started = [event.task_name for event in heard.events if isinstance(event, TrialStarted)]
    assert started == ["t00", "t00", "t01", "t01", "t02", "t02"]


async def test_a_broken_task_never_stops_its_siblings(tmp_path: Path) -> None:
    make_task(tasks(tmp_path, 2), "broken", toml="not toml")
    outcome = await run(tmp_path, config(tmp_path / "tasks"))
    assert outcome.summary.counts == {
        "scored": 2,
        "agent_failed": 0,
        "infra_error": 0,
        "task_error": 1,
        "cancelled": 0,
        "pending": 0,
    }


@pytest.mark.case("D9")
@pytest.mark.case("F4")
async def test_what_infrastructure_failed_is_repeated_and_its_evidence_kept(tmp_path: Path) -> None:
    failed: set[str] = set()

    async def once(spec: SandboxSpec) -> None:
        name = spec.labels["harness.trial"].partition("__")[0]
        if name not in failed:
            failed.add(name)
            raise SandboxUnavailable("the engine restarted")

    outcome = await run(tmp_path, config(tasks(tmp_path, 2)), MemoryProvider(on_start=once))
    assert outcome.summary.counts["scored"] == 2
    assert outcome.summary.n_retries == 2
    first = json.loads((tmp_path / "jobs/j/t00__1/result.json").read_text())
    assert first["failure"]["tag"] == "sandbox_unavailable"
    assert (tmp_path / "jobs/j/t00__1r1/result.json").exists()


async def test_an_agent_that_ruins_one_sandbox_after_the_other_has_failed(tmp_path: Path) -> None:
    provider = MemoryProvider(on_kill=SandboxUnusable("no shell starts any more"))
    outcome = await run(tmp_path, config(tasks(tmp_path, 1), max_retries=5), provider)
    first, second = (json.loads((tmp_path / f"jobs/j/t00__1{r}/result.json").read_text()) for r in ("", "r1"))
    assert (first["outcome"], first["failure"]["retryable"]) == ("infra_error", True)
    assert (second["outcome"], second["failure"]["category"]) == ("agent_failed", "capability")
    assert first["failure"]["tag"] == second["failure"]["tag"] == "sandbox_unusable"
    assert (outcome.summary.n_executions, outcome.summary.rate().value) == (2, 0.0)


@pytest.mark.case("D10")
async def test_a_scored_attempt_is_never_repeated(tmp_path: Path) -> None:
    provider = MemoryProvider(verdict=lambda box: {"reward.txt": b"0"})
    outcome = await run(tmp_path, config(tasks(tmp_path, 1), max_retries=5), provider)
    assert (outcome.summary.n_executions, outcome.summary.rate().value) == (1, 0.0)


@pytest.mark.case("F8")
async def test_an_empty_selection_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nosuch"):
        await run(tmp_path, config(tasks(tmp_path, 2), include=("nosuch*",)))
    assert not (tmp_path / "jobs").exists()


async def test_two_runs_never_share_a_folder(tmp_path: Path) -> None:
    job = config(tasks(tmp_path, 1))
    await run(tmp_path, job)
    with pytest.raises(UsageError, match="exists"):
        await run(tmp_path, job)


async def test_a_job_that_is_being_run_can_not_be_resumed(tmp_path: Path) -> None:
    refused: list[str] = []

    async def try_to_resume(spec: SandboxSpec) -> None:
        with pytest.raises(UsageError) as error:
            await resume(tmp_path)
        refused.append(str(error.value))

    await run(tmp_path, config(tasks(tmp_path, 1)), MemoryProvider(on_start=try_to_resume))
    assert "being run by another process" in refused[0]


@pytest.mark.case("D1")
@pytest.mark.case("D2")
async def test_resuming_runs_exactly_what_is_owed(tmp_path: Path) -> None:
    await run(tmp_path, config(tasks(tmp_path, 4)))
    job = tmp_path / "jobs/j"
    shutil.rmtree(job / "t00__1")
    (job / "t01__1/result.json").unlink()
    document = json.loads((job / "t02__1/result.json").read_text())
    (job / "t02__1/result.json").write_text(json.dumps({**document, "outcome": "infra_error", "reward": None}))
    heard = Heard()
    outcome = await resume(tmp_path, subscribers=[heard])
    ran = sorted(event.result.trial_name for event in heard.events if isinstance(event, TrialFinished))
    assert ran == ["t00__1", "t01__1r1", "t02__1r1"]
    assert outcome.summary.counts["scored"] == 4
    assert outcome.summary.n_total == 4
    assert outcome.findings == ["t01__1: no result.json: the execution was interrupted; the attempt is run again"]


@pytest.mark.case("E13")
async def test_a_record_cut_in_the_middle_is_named_and_owed_again(tmp_path: Path) -> None:
    await run(tmp_path, config(tasks(tmp_path, 2)))
    path = tmp_path / "jobs/j/t01__1/result.json"
    path.write_text(path.read_text()[:100])
    outcome = await resume(tmp_path)
    assert outcome.summary.counts["scored"] == 2
    assert len(outcome.findings) == 1
    assert "t01__1" in outcome.findings[0]


async def test_resuming_a_finished_job_runs_nothing(tmp_path: Path) -> None:
    await run(tmp_path, config(tasks(tmp_path, 2)))
    heard = Heard()
    outcome = await resume(tmp_path, subscribers=[heard])
    assert heard.events == []
    assert outcome.summary.counts["scored"] == 2


@pytest.mark.case("D5")
async def test_resuming_refuses_what_has_changed_and_names_it(tmp_path: Path) -> None:
    await run(tmp_path, config(tasks(tmp_path, 2)))
    (tmp_path / "tasks/t01/instruction.md").write_text("Something else.")
    with pytest.raises(UsageError, match="task t01: edited"):
        await resume(tmp_path)
    shutil.rmtree(tmp_path / "tasks/t01")
    with pytest.raises(UsageError, match="task t01: no longer there"):
        await resume(tmp_path)


@pytest.mark.case("D5")
async def test_attempts_can_be_added_but_not_taken_away(tmp_path: Path) -> None:
    await run(tmp_path, config(tasks(tmp_path, 2), n_attempts=2))
    outcome = await resume(tmp_path, n_attempts=3)
    assert outcome.summary.counts["scored"] == 6
    with pytest.raises(UsageError, match="can only add"):
        await resume(tmp_path, n_attempts=1)
    assert (await resume(tmp_path)).summary.n_total == 6


@pytest.mark.parametrize("folder", ["nothing", "empty", "harbor"])
async def test_what_is_no_job_of_ours_is_refused_in_one_line(tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()
    path = DATA / "fail1" if folder == "harbor" else tmp_path / folder
    with pytest.raises(UsageError) as error:
        await resume_job(JobPaths(path), provider=MemoryProvider())
    assert "\n" not in str(error.value)


async def test_draining_keeps_what_finished_and_resuming_does_the_rest(tmp_path: Path) -> None:
    jobs: list[RunningJob] = []

    def stop_at_the_first(event: Event) -> None:
        if isinstance(event, TrialFinished):
            jobs[0].stop(Stopping.DRAIN)

    job = config(tasks(tmp_path, 8), n_concurrent=2)
    outcome = await run(tmp_path, job, on_start=jobs.append, subscribers=[stop_at_the_first])
    assert outcome.stopped is Stopping.DRAIN
    done = attempts(tmp_path)
    assert 0 < len(done) < 8
    await resume(tmp_path)
    assert attempts(tmp_path) == [(f"t{n:02}", 1) for n in range(8)]


async def test_stopping_now_records_what_it_cut_as_cancelled_and_resuming_owes_it(tmp_path: Path) -> None:
    provider = MemoryProvider()

    async def wait(spec: SandboxSpec) -> None:
        await asyncio.sleep(60)

    provider.on_start = wait

    def stop_soon(job: RunningJob) -> None:
        asyncio.get_running_loop().call_later(0.1, job.stop, Stopping.NOW)

    outcome = await run(tmp_path, config(tasks(tmp_path, 3), n_concurrent=2), provider, on_start=stop_soon)
    assert outcome.summary.rate().n == 0
    assert not provider.live
    resumed = await resume(tmp_path)
    assert resumed.summary.counts["scored"] == 3


@pytest.mark.case("A11")
async def test_resuming_reaps_the_jobs_own_orphans_and_nothing_else(tmp_path: Path) -> None:
    await run(tmp_path, config(tasks(tmp_path, 1)))
    job_id = json.loads((tmp_path / "jobs/j/lock.json").read_text())["job_id"]
    shutil.rmtree(tmp_path / "jobs/j/t00__1")
    provider = MemoryProvider()
    from backends.lifecycle import owner_label

    boot = owner_label().partition(":")[0]
    dead, alive = f"{boot}:999999999:1", owner_label()
    for job, owner in ((job_id, dead), (job_id, alive), ("other", dead)):
        await provider.start(SandboxSpec(image="i", labels={JOB: job, OWNER: owner}))
    kept = list(provider.live)[1:]
    outcome = await resume(tmp_path, provider)
    assert outcome.reaped == 1
    assert list(provider.live) == kept


@pytest.mark.case("D7")
def test_two_jobs_in_one_process_do_not_share_a_loop(tmp_path: Path) -> None:
    job = config(tasks(tmp_path, 1))
    for name in ("a", "b"):
        outcome = asyncio.run(run_job(job, JobPaths(tmp_path / name), provider=MemoryProvider()))
        assert outcome.summary.counts["scored"] == 1


async def test_a_listener_that_fails_disturbs_nobody(tmp_path: Path) -> None:
    def broken(event: object) -> None:
        raise RuntimeError("display")

    outcome = await run(tmp_path, config(tasks(tmp_path, 2)), subscribers=[broken])
    assert outcome.summary.counts["scored"] == 2


@pytest.mark.case("F4")
def test_a_job_that_harbor_wrote_is_read_with_its_outcomes() -> None:
    summary, findings = summarise(JobPaths(DATA / "fail1"))
    assert findings == []
    assert summary.counts == {
        "scored": 6,
        "agent_failed": 1,
        "infra_error": 4,
        "task_error": 7,
        "cancelled": 0,
        "pending": 0,
    }
    rewards = {finished.name.partition("__")[0]: finished.reward for finished in summary.last.values()}
    assert rewards["jsonmulti"] == 0.5
    assert rewards["bigreward"] is rewards["negreward"] is rewards["noreward"] is None
    assert summarise(JobPaths(DATA / "term1"))[0].spent["in"] == 10959


def test_no_outcome_is_left_out_of_the_counts(tmp_path: Path) -> None:
    summary, _ = summarise(JobPaths(DATA / "fail1"))
    assert set(summary.counts) == {*(outcome.value for outcome in Outcome), "pending"}


async def test_a_call_that_was_repeated_is_in_the_log_of_its_trial_without_the_providers_words(tmp_path: Path) -> None:
    failed: set[str] = set()

    async def at_once(seconds: float) -> None:
        assert seconds > 0

    async def flaky_start(spec: SandboxSpec) -> None:
        async def create() -> None:
            trial = str(spec.labels["harness.trial"])
            if trial.startswith("t01") and trial not in failed:
                failed.add(trial)
                raise SandboxUnavailable("your key is s3cret", backend="cloud", operation="create")

        await repeated(create, sleep=at_once)

    await run(tmp_path, config(tasks(tmp_path, 3), n_concurrent=3), MemoryProvider(on_start=flaky_start))
    logs = {path.parent.name: path.read_text() for path in (tmp_path / "jobs/j").glob("*/trial.log")}
    told = {name: text.count("SandboxUnavailable of cloud (create); repetition 1 of 3") for name, text in logs.items()}
    assert told == {"t00__1": 0, "t01__1": 1, "t02__1": 0}
    assert "s3cret" not in "".join(logs.values())
    assert logging.getLogger("backends").handlers == []


async def test_of_two_jobs_at_once_each_hears_of_its_own_repetitions_alone(tmp_path: Path) -> None:
    dataset, both_run = tasks(tmp_path, 1), asyncio.Barrier(2)

    async def job(name: str, failures: int) -> None:
        left = [SandboxUnavailable("no", backend="cloud", operation="create")] * failures

        async def at_once(seconds: float) -> None:
            assert seconds > 0

        async def start(spec: SandboxSpec) -> None:
            async def create() -> None:
                if left:
                    raise left.pop()

            await both_run.wait()
            await repeated(create, sleep=at_once)

        await run(tmp_path / name, config(dataset), MemoryProvider(on_start=start))

    await asyncio.gather(job("a", failures=2), job("b", failures=0))
    logs = [(tmp_path / name / "jobs/j/t00__1/trial.log").read_text() for name in ("a", "b")]
    assert [log.count("repetition") for log in logs] == [2, 0]
