"""A job whose attempts are decided while it runs: what it records, and what it never runs twice."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from builders import Heard, MemoryProvider, make_task

from backends.errors import SandboxUnavailable
from backends.spec import SandboxSpec
from harness.errors import UsageError
from harness.failures import Outcome
from harness.job.config import JobConfig
from harness.job.open import open_job
from harness.job.progress import load_summary
from harness.store.layout import JobPaths
from harness.trial.events import TrialStarted


def config(folder: Path, **fields: Any) -> JobConfig:
    make_task(folder / "tasks", "one")
    make_task(folder / "tasks", "two")
    return JobConfig(dataset=str(folder / "tasks"), **{"agent": "nop", "retry_base_sec": 0.0, **fields})


async def test_it_leaves_a_folder_like_any_other_job(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path / "job")
    async with open_job(config(tmp_path), paths, provider=MemoryProvider()) as job:
        results = await asyncio.gather(job.run("one", 1, group="3"), job.run("one", 2, group="3"), job.run("two", 7))
    assert [result.trial_name for result in results] == ["one__1", "one__2", "two__7"]
    assert results[0].group_id == results[1].group_id == f"one@{results[0].task_checksum[:12]}/3"
    summary, findings = load_summary(paths)
    assert (summary.counts["scored"], summary.n_total, findings) == (3, 3, [])
    assert json.loads(paths.result.read_text())["finished_at"] is not None


async def test_an_attempt_that_came_to_an_end_is_read_back_and_not_run_again(tmp_path: Path) -> None:
    asked, paths, heard = config(tmp_path), JobPaths(tmp_path / "job"), Heard()
    async with open_job(asked, paths, provider=MemoryProvider()) as job:
        first = await job.run("one", 1)
    async with open_job(asked, paths, provider=MemoryProvider(), subscribers=[heard]) as job:
        assert (await job.run("one", 1)).id == first.id
        assert (await job.run("one", 2)).trial_name == "one__2"
    assert [event.trial_name for event in heard.events if isinstance(event, TrialStarted)] == ["one__2"]
    assert load_summary(paths)[0].n_total == 2


async def test_a_cancelled_attempt_is_recorded_with_the_reason_and_owed_again(tmp_path: Path) -> None:
    held = asyncio.Event()

    async def hang(spec: SandboxSpec) -> None:
        held.set()
        await asyncio.sleep(60)

    asked, paths = config(tmp_path), JobPaths(tmp_path / "job")
    async with open_job(asked, paths, provider=MemoryProvider(on_start=hang)) as job:
        trial = asyncio.create_task(job.run("one", 1))
        await held.wait()
        trial.cancel("a sibling was faster")
        with pytest.raises(asyncio.CancelledError):
            await trial
    record = json.loads((tmp_path / "job/one__1/result.json").read_text())
    assert (record["outcome"], record["failure"]["message"]) == ("cancelled", "a sibling was faster")
    async with open_job(asked, paths, provider=MemoryProvider()) as job:
        assert (await job.run("one", 1)).trial_name == "one__1r1"


async def test_what_infrastructure_failed_is_repeated(tmp_path: Path) -> None:
    starts = iter([SandboxUnavailable("no room", backend="memory"), None])

    async def fails_once(spec: SandboxSpec) -> None:
        if (error := next(starts)) is not None:
            raise error

    async with open_job(
        config(tmp_path), JobPaths(tmp_path / "job"), provider=MemoryProvider(on_start=fails_once)
    ) as job:
        result = await job.run("one", 1)
    assert (result.outcome, result.trial_name) == (Outcome.SCORED, "one__1r1")


async def test_another_set_of_tasks_is_refused_in_one_line(tmp_path: Path) -> None:
    asked, paths = config(tmp_path), JobPaths(tmp_path / "job")
    async with open_job(asked, paths, provider=MemoryProvider()):
        pass
    (tmp_path / "tasks/one/instruction.md").write_text("Say goodbye.")
    with pytest.raises(UsageError, match=r"begun on something else .*one: edited"):
        async with open_job(asked, paths, provider=MemoryProvider()):
            pass
