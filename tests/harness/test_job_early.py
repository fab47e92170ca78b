"""A job that its stop rule ends: in random order, unswayed by what ends sooner, recorded, resumed only when told to."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from builders import Heard, MemoryProvider, make_task

from backends.errors import SandboxUnavailable
from backends.spec import ExecuteResponse, SandboxSpec
from harness.cli.finish import INTERRUPTED, OK, exit_code
from harness.errors import UsageError
from harness.job.config import JobConfig
from harness.job.early import Decision, TaskCounts, in_random_order, load_rule
from harness.job.runner import JobOutcome, resume_job, run_job
from harness.job.scheduler import Stopping
from harness.store.layout import JobPaths
from harness.task.model import BrokenTask
from harness.trial.events import StoppedEarly, TrialFinished, TrialStarted


@dataclass
class After:
    """A rule that decides after so many tasks, and remembers what it was told."""

    tasks: int
    heard: list[TaskCounts] = field(default_factory=list)

    def add(self, task: TaskCounts) -> Decision | None:
        self.heard.append(task)
        if len(self.heard) < self.tasks:
            return None
        return Decision(rule="after", above=True, threshold=0.5, alpha=0.05, e_value=21.0, tasks=len(self.heard))


def tasks(folder: Path, n: int) -> Path:
    for number in range(n):
        make_task(folder / "tasks", f"t{number:02}", test=f"#!/bin/sh\necho {number}\n")
    return folder / "tasks"


async def run(folder: Path, rule: After, provider: MemoryProvider | None = None, **fields: Any) -> JobOutcome:
    options = {"agent": "nop", "retry_base_sec": 0.0, "sequential": 0.5, "n_concurrent": 1, **fields}
    subscribers = options.pop("subscribers", ())
    job = JobConfig(dataset=str(folder / "tasks"), **options)
    paths = JobPaths(folder / "jobs" / "j")
    return await run_job(job, paths, provider=provider or MemoryProvider(), stop_rule=rule, subscribers=subscribers)


async def resume(folder: Path, rule: After, **options: Any) -> JobOutcome:
    return await resume_job(JobPaths(folder / "jobs" / "j"), provider=MemoryProvider(), stop_rule=rule, **options)


def order(heard: Heard) -> list[str]:
    return list(dict.fromkeys(event.task_name for event in heard.events if isinstance(event, TrialStarted)))


async def test_nothing_is_started_after_the_decision_and_the_job_says_why(tmp_path: Path) -> None:
    tasks(tmp_path, 12)
    heard = Heard()
    outcome = await run(tmp_path, After(4), subscribers=[heard])
    assert (outcome.summary.counts["scored"], outcome.summary.counts["pending"]) == (4, 8)
    document = json.loads((tmp_path / "jobs/j/result.json").read_text())
    assert document["stopped_early"] == {
        "rule": "after", "above": True, "threshold": 0.5, "alpha": 0.05, "e_value": 21.0, "tasks": 4,
    }  # fmt: skip
    assert document["stats"]["n_pending_trials"] == 8
    (said,) = [event.why for event in heard.events if isinstance(event, StoppedEarly)]
    assert said.startswith("the success rate is at or above 50.0%: e-value 21 after 4 tasks")
    assert exit_code(outcome, max_infra=0.05, fail_under=None) == OK


async def test_what_runs_at_the_decision_is_finished(tmp_path: Path) -> None:
    tasks(tmp_path, 12)
    heard = Heard()
    outcome = await run(tmp_path, After(4), n_concurrent=3, subscribers=[heard])
    counts = outcome.summary.counts
    assert counts["scored"] == len(order(heard)) >= 4  # more than six, where one of the first takes its time
    assert (counts["cancelled"], counts["scored"] + counts["pending"]) == (0, 12)


async def test_the_order_of_tasks_is_random_and_only_the_seed_decides_it(tmp_path: Path) -> None:
    tasks(tmp_path, 12)
    orders = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        heard = Heard()
        (tmp_path / name).mkdir()
        (tmp_path / name / "tasks").symlink_to(tmp_path / "tasks")
        await run(tmp_path / name, After(99), seed=seed, subscribers=[heard])
        orders.append(order(heard))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) != orders[0]
    assert sorted(orders[2]) == sorted(orders[0])


def test_the_order_does_not_depend_on_how_the_tasks_were_found() -> None:
    found = [BrokenTask(name=name, path=Path(name), reason="", source=None) for name in "abcdefgh"]
    assert in_random_order(found, 3) == in_random_order(found[::-1], 3)


async def test_tasks_that_end_sooner_are_not_heard_sooner(tmp_path: Path) -> None:
    """Passing tasks end at once and failing ones late: by the order of the ends, the first six would all pass."""
    tasks(tmp_path, 12)
    passing = {f"t{n:02}" for n in range(6)}

    def passes(labels: Any) -> bool:
        return str(labels["harness.trial"]).partition("__")[0] in passing

    heard, rule = Heard(), After(99)

    def ended() -> list[str]:
        return [event.result.task_name for event in heard.events if isinstance(event, TrialFinished)]

    async def slow_to_fail(spec: SandboxSpec) -> None:
        while not passes(spec.labels) and len(ended()) < 6:
            await asyncio.sleep(0.005)

    def verdict(box: Any) -> dict[str, bytes] | ExecuteResponse:
        return {"reward.txt": b"1" if passes(box.spec.labels) else b"0"}

    provider = MemoryProvider(on_start=slow_to_fail, verdict=verdict)
    await run(tmp_path, rule, provider, n_concurrent=12, subscribers=[heard])
    assert [task.passed for task in rule.heard] == [int(name in passing) for name in order(heard)]
    assert set(ended()[:6]) == passing


async def test_all_attempts_of_a_task_are_told_at_once(tmp_path: Path) -> None:
    tasks(tmp_path, 4)
    rule = After(99)
    await run(tmp_path, rule, n_attempts=3, n_concurrent=4)
    assert rule.heard == [TaskCounts(passed=3, counted=3, total=3)] * 4


async def test_a_task_is_told_after_its_repetitions_and_what_is_missing_is_told_as_missing(tmp_path: Path) -> None:
    tasks(tmp_path, 3)
    make_task(tmp_path / "tasks", "t99", toml="not toml")
    tried: dict[str, int] = {}

    async def unlucky(spec: SandboxSpec) -> None:
        name = spec.labels["harness.trial"].partition("__")[0]
        tried[name] = tried.get(name, 0) + 1
        if name == "t00" or (name == "t01" and tried[name] == 1):
            raise SandboxUnavailable("gone")

    rule, heard = After(99), Heard()
    await run(tmp_path, rule, MemoryProvider(on_start=unlucky), max_retries=1, subscribers=[heard])
    told = dict(zip(order(heard), rule.heard, strict=True))
    missing, passed = TaskCounts(passed=0, counted=0, total=1), TaskCounts(passed=1, counted=1, total=1)
    assert told == {"t00": missing, "t01": passed, "t02": passed, "t99": missing}


async def test_a_decided_job_owes_nothing_until_the_rule_is_set_aside(tmp_path: Path) -> None:
    tasks(tmp_path, 9)
    await run(tmp_path, After(4))
    again = await resume(tmp_path, After(4))
    assert again.decision is not None
    assert (again.decision.tasks, again.summary.counts["pending"]) == (4, 5)
    assert json.loads((tmp_path / "jobs/j/result.json").read_text())["stopped_early"]["tasks"] == 4
    whole = await resume(tmp_path, After(4), sequential=False)
    assert (whole.decision, whole.summary.counts["scored"]) == (None, 9)
    assert json.loads((tmp_path / "jobs/j/result.json").read_text())["stopped_early"] is None


async def test_a_killed_job_goes_on_with_what_the_rule_had_heard(tmp_path: Path) -> None:
    tasks(tmp_path, 9)
    first = Heard()
    await run(tmp_path, After(4), subscribers=[first])
    (tmp_path / "jobs/j/result.json").unlink()
    rule, second = After(6), Heard()
    outcome = await resume(tmp_path, rule, subscribers=[second])
    assert len(rule.heard) == 6
    assert outcome.decision is not None
    assert len(order(second)) == 2
    assert not set(order(first)) & set(order(second))


async def test_a_decision_that_a_killed_job_could_not_record_is_found_again(tmp_path: Path) -> None:
    tasks(tmp_path, 9)
    await run(tmp_path, After(4))
    (tmp_path / "jobs/j/result.json").unlink()
    heard = Heard()
    outcome = await resume(tmp_path, After(3), subscribers=[heard])
    assert outcome.decision is not None
    assert heard.events == []


async def test_a_job_without_a_question_hears_no_rule(tmp_path: Path) -> None:
    tasks(tmp_path, 3)
    rule = After(1)
    outcome = await run(tmp_path, rule, sequential=None)
    assert (outcome.decision, rule.heard, outcome.summary.counts["scored"]) == (None, [], 3)


async def test_an_interrupted_job_is_not_called_decided(tmp_path: Path) -> None:
    tasks(tmp_path, 3)
    outcome = await run(tmp_path, After(2))
    outcome.stopped = Stopping.NOW
    assert exit_code(outcome, max_infra=0.05, fail_under=None) == INTERRUPTED
    outcome.stopped, outcome.decision = Stopping.DRAIN, None
    assert exit_code(outcome, max_infra=0.05, fail_under=None) == INTERRUPTED


def test_a_missing_rule_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.job.early.ENTRY_POINT_GROUP", "nothing.registers.here")
    with pytest.raises(UsageError, match="--sequential needs a stop rule"):
        load_rule(0.5, 0.05)
