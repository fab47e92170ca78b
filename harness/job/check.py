"""Whether tasks measure what they should: the solution earns all, doing nothing earns nothing, each time alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.agents.history import FOUND
from harness.failures import Outcome
from harness.job.config import JobConfig
from harness.job.runner import run_job, tasks_of
from harness.records import TrialResult
from harness.store.files import read_json
from harness.store.layout import JobPaths
from harness.store.reader import read_results
from harness.task.model import BrokenTask

_HISTORY = "harness.agents.history:HistoryAgent"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCheck:
    """What was found of one task.

    Attributes:
        oracle, nop: the rewards of the solution and of doing nothing, an attempt each; None where none was earned.
        flaky: equal attempts were judged differently.
        findings: what is wrong with the task, a line each.
        unjudged: attempts that infrastructure failed, so that they say nothing of the task.
    """

    name: str
    oracle: tuple[float | None, ...] = ()
    nop: tuple[float | None, ...] = ()
    flaky: bool = False
    findings: tuple[str, ...] = ()
    unjudged: int = 0


async def check_tasks(
    folder: Path, *, repeat: int, progress: Callable[[str], None] = lambda line: None, **job: Any
) -> list[TaskCheck]:
    """Run the solution and doing nothing `repeat` times on every task, and look into its repositories once.

    The jobs are kept in `folder`. `job` are fields of JobConfig: the dataset, the backend. Raises UsageError.
    """
    tasks = tasks_of(JobConfig(**job))
    trials: dict[str, dict[str, list[TrialResult]]] = {}
    for title, agent, attempts in (("oracle", "oracle", repeat), ("nop", "nop", repeat), ("history", _HISTORY, 1)):
        progress(f"{title}: {attempts} of each task")
        paths = JobPaths(folder / title)
        await run_job(JobConfig(agent=agent, n_attempts=attempts, **job), paths)
        trials[title] = _by_task(paths)
    checks = []
    for task in tasks:
        if isinstance(task, BrokenTask):
            checks.append(TaskCheck(name=task.name, findings=(f"cannot run: {task.reason}",)))
            continue
        noted = [" ".join(part for part in (each.path, each.key, each.message) if part) for each in task.findings]
        oracle, nop, looks = (trials[title].get(task.name, []) for title in ("oracle", "nop", "history"))
        told = [
            f"history: {line}"
            for result in looks
            for path in sorted((folder / "history" / result.trial_name).glob(f"**/{FOUND}"))
            for line in read_json(path)
        ]
        checks.append(judge(task.name, oracle, nop, looks, [*noted, *told]))
    return checks


def judge(
    name: str,
    oracle: Sequence[TrialResult],
    nop: Sequence[TrialResult],
    looks: Sequence[TrialResult] = (),
    noted: Sequence[str] = (),
) -> TaskCheck:
    """What the attempts say of the task: `oracle` should earn 1 or more, `nop` 0 or less, and each always the same.

    `looks` into its repositories have told what they found among `noted`.
    """
    flaky, findings = False, []
    rewards: list[tuple[float | None, ...]] = []
    for what, attempts, lowest, highest in (
        ("the solution", oracle, 1.0, math.inf),
        ("doing nothing", nop, -math.inf, 0.0),
    ):
        judged = [each for each in attempts if each.outcome not in (Outcome.INFRA_ERROR, Outcome.CANCELLED)]
        rewards.append(tuple(each.reward for each in attempts))
        seen = Counter(_end(each) for each in judged)
        if len(seen) > 1:
            flaky = True
            findings.append(f"flaky: {what} " + ", ".join(f"{end} in {n}" for end, n in seen.most_common()))
        elif judged and (judged[0].reward is None or not lowest <= judged[0].reward <= highest):
            findings.append(f"{what} {_end(judged[0])}{_why(judged[0])}")
    return TaskCheck(
        name=name,
        oracle=rewards[0],
        nop=rewards[1],
        flaky=flaky,
        findings=(*findings, *noted),
        unjudged=sum(each.outcome is Outcome.INFRA_ERROR for each in (*oracle, *nop, *looks)),
    )


def _end(result: TrialResult) -> str:
    if result.reward is not None:
        return f"earns {result.reward:g}"
    return f"ends as {result.outcome.value if result.outcome else 'nothing'}"


def _why(result: TrialResult) -> str:
    return f": {result.failure.message}" if result.reward is None and result.failure else ""


def _by_task(paths: JobPaths) -> dict[str, list[TrialResult]]:
    """The attempts of every task, each as its last execution left it."""
    last: dict[tuple[str, int], TrialResult] = {}
    for _, result, _why_not in read_results(paths):
        if result is None:
            continue
        key = (result.task_name, result.attempt)
        if key not in last or result.retry > last[key].retry:
            last[key] = result
    found: dict[str, list[TrialResult]] = {}
    for (name, _), result in sorted(last.items()):
        found.setdefault(name, []).append(result)
    return found
