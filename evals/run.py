"""A run as it is judged: per task, how many attempts there were, how many say something of the agent, how many passed.

One rule for every denominator: `counted` attempts are those that were scored and those that the agent itself ended
without a reward, which are failures. Everything else, from infrastructure to what is still pending, is missing data:
never a zero, always told, and its effect is bounded by letting all of it fail or all of it pass.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import UsageError
from harness.failures import Outcome
from harness.job.config import load_job
from harness.job.progress import See, load_summary
from harness.job.summary import Finished, JobSummary
from harness.store.index.folders import require_job
from harness.store.layout import JobPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """One task in one run.

    Attributes:
        digest: of the task's content; "" where it is unknown.
        total: attempts that were meant to be. unscored: those that do not count, by outcome; `pending` never ran.
        rewards: the sum over counted attempts; an attempt without a reward adds 0.
        cost: in USD over the `priced` attempts, which told one; None where none did.
        seconds: wall time per counted attempt.
        trials: the folder of each counted attempt that failed.
    """

    name: str
    digest: str
    total: int
    counted: int
    passed: int
    rewards: float = 0.0
    categories: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    cost: float | None = None
    seconds: float | None = None
    trials: tuple[str, ...] = ()
    unscored: Mapping[str, int] = field(default_factory=dict)
    priced: int = 0

    @property
    def pending(self) -> int:
        return self.unscored.get("pending", 0)

    @property
    def missing(self) -> int:
        return self.total - self.counted

    @property
    def rate(self) -> float | None:
        """The success rate; None where no attempt counts."""
        return self.passed / self.counted if self.counted else None

    @property
    def reward(self) -> float | None:
        """The mean reward; None where no attempt counts."""
        return self.rewards / self.counted if self.counted else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A job, or a saved baseline of one.

    `unplaced` attempts never ran, and the record does not tell of which tasks they would have been.
    """

    label: str
    pass_mark: float
    agent: str
    model: str | None
    tasks: Mapping[str, TaskRun]
    outcomes: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
    unplaced: int = 0

    @property
    def attempts(self) -> int:
        """Attempts per task."""
        return max((task.total for task in self.tasks.values()), default=0)

    @property
    def total(self) -> int:
        return sum(task.total for task in self.tasks.values()) + self.unplaced

    @property
    def missing(self) -> int:
        return sum(task.missing for task in self.tasks.values()) + self.unplaced

    @property
    def unscored(self) -> dict[str, int]:
        """The attempts that say nothing of the agent, by outcome."""
        found = Counter({"pending": self.unplaced})
        for task in self.tasks.values():
            found.update(task.unscored)
        return {name: found[name] for name in (*Outcome, "pending") if found[name]}

    @property
    def cost(self) -> float | None:
        """USD over all tasks; None where no attempt told any."""
        known = [task.cost for task in self.tasks.values() if task.cost is not None]
        return sum(known) if known else None

    @property
    def dataset_digest(self) -> str:
        """Of all tasks, by name and content."""
        lines = sorted(f"{task.name}\0{task.digest}\n" for task in self.tasks.values())
        return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def run_of_job(folder: Path) -> Run:
    """Read a job's folder, ours or Harbor's. Raises UsageError where it holds no trials."""
    return read_job(folder)[0]


def read_job(folder: Path, see: See | None = None) -> tuple[Run, JobSummary]:
    """Read a job's folder once, for whoever needs its attempts, too; `see` is shown every record.

    Raises UsageError where it holds no trials. With `see`, a job of which no trial has ended yet is welcome.
    """
    paths = require_job(folder)
    planned = planned_of(paths)
    summary, findings = load_summary(paths, see, empty=see is not None)
    if not (summary.last or findings or summary.n_total or planned):
        raise UsageError(f"{folder} holds no trials")
    return run_of_summary(summary, label=str(folder), planned=planned, findings=tuple(findings)), summary


def run_of_summary(
    summary: JobSummary,
    *,
    label: str,
    planned: Mapping[str, tuple[str, int]] | None = None,
    findings: tuple[str, ...] = (),
) -> Run:
    """Group a job's attempts by task; `planned` is the digest and number of attempts of every task asked for."""
    by_task: dict[str, list[Finished]] = defaultdict(list)
    for finished in summary.last.values():
        by_task[finished.task_name].append(finished)
    planned = planned or {}
    tasks = {}
    for name in sorted({*by_task, *planned}):
        digest, total = planned.get(name, ("", 0))
        tasks[name] = _task_run(name, by_task.get(name, []), digest, total, summary)
    agents = {(finished.agent, finished.model) for finished in summary.last.values()}
    agent, model = agents.pop() if len(agents) == 1 else ("several" if agents else "unknown", None)
    return Run(
        label=label,
        pass_mark=summary.pass_mark,
        agent=agent,
        model=model,
        tasks=tasks,
        outcomes=summary.counts,
        findings=findings,
        unplaced=max(0, summary.n_total - sum(task.total for task in tasks.values())),
    )


def _task_run(name: str, attempts: list[Finished], digest: str, total: int, summary: JobSummary) -> TaskRun:
    counted = [each for each in attempts if each.counted]
    first = attempts[0] if attempts else None
    costs = [each.cost for each in attempts if each.cost is not None]
    unscored = Counter(each.outcome.value for each in attempts if not each.counted)
    unscored["pending"] = max(0, total - len(attempts))
    return TaskRun(
        name=name,
        digest=first.digest if first else digest,
        total=max(total, len(attempts)),
        counted=len(counted),
        passed=sum(map(summary.passed, counted)),
        rewards=sum(each.reward or 0.0 for each in counted),
        categories=first.categories if first else (),
        tags=first.task_tags if first else (),
        cost=sum(costs) if costs else None,
        priced=len(costs),
        seconds=_mean(each.seconds for each in counted),
        trials=tuple(each.name for each in counted if not summary.passed(each)),
        unscored={name: count for name, count in unscored.items() if count},
    )


def planned_of(paths: JobPaths) -> dict[str, tuple[str, int]]:
    """By task, its digest and number of attempts; nothing where a job's folder does not tell, as Harbor's do not."""
    try:
        config, lock = load_job(paths)
    except UsageError:
        return {}
    return {
        task.name: (task.digest.removeprefix("sha256:"), config.n_attempts if task.digest else 1) for task in lock.tasks
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
