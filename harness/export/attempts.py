"""The attempts of jobs, ours and Harbor's: one each, its last execution, by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from harness.errors import UsageError
from harness.records import TrialResult
from harness.store.files import read_table
from harness.store.index.folders import is_trial, require_job
from harness.store.layout import JobPaths, TrialPaths
from harness.store.reader import group_of, load_result, read_results


@dataclass(frozen=True, slots=True)
class Job:
    """A job's folder. `planned` is its number of attempts, `per_task` of each task; None where it does not tell.

    `chosen`: the folders of the only trials that are wanted; None is all of them.
    """

    name: str
    paths: JobPaths
    planned: int | None
    per_task: int | None
    harness_version: str
    chosen: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class AttemptRef:
    """Where an attempt lies, and what is needed before it is read again."""

    job: Job
    folder: str
    group_id: str
    key: tuple[str, str, int]
    retry: int

    @property
    def paths(self) -> TrialPaths:
        """Its files."""
        return self.job.paths.trial(self.folder)


@dataclass(slots=True)
class Attempts:
    """All attempts, a group's next to each other.

    Attributes:
        superseded: executions that a later one of the same attempt replaced.
        unreadable: attempts that left no record, by the reason.
        findings: one line for each record that is damaged.
    """

    refs: list[AttemptRef] = field(default_factory=list)
    planned: Counter[str] = field(default_factory=Counter)
    recorded: Counter[str] = field(default_factory=Counter)
    superseded: int = 0
    unreadable: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Attempts that there are, or were meant to be."""
        return len(self.refs) + self.unreadable.total()

    def group_size(self, group_id: str) -> int:
        """How many attempts a group is meant to have."""
        return max(self.planned[group_id], self.recorded[group_id])

    def group_missing(self, group_id: str) -> int:
        """How many of them left no record."""
        return self.group_size(group_id) - self.recorded[group_id]


def open_jobs(folders: Sequence[Path]) -> list[Job]:
    """The jobs in these folders, each under a name of its own; of trials' folders, their jobs with only these trials.

    Raises UsageError for what is neither.
    """
    roots: dict[Path, Path] = {}
    chosen: dict[Path, set[str]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder; name the folders of jobs, e.g. jobs/my-job")
        resolved = folder.resolve()
        if resolved.parent in chosen or is_trial(folder):
            chosen.setdefault(resolved.parent, set()).add(resolved.name)
            roots.setdefault(resolved.parent, folder.parent)
        else:
            roots[resolved] = folder
    names = Counter(resolved.name for resolved in roots)
    return [
        _job(root, unique=names[resolved.name] == 1, chosen=chosen.get(resolved)) for resolved, root in roots.items()
    ]


def _job(root: Path, *, unique: bool, chosen: set[str] | None) -> Job:
    require_job(root)
    resolved = root.resolve()
    config, result, lock = (read_table(root / f"{name}.json") for name in ("config", "result", "lock"))
    planned = result.get("n_total_trials")
    per_task = config.get("n_attempts")
    return Job(
        name=resolved.name if unique else f"{resolved.parent.name}/{resolved.name}",
        paths=JobPaths(root),
        planned=planned if isinstance(planned, int) and chosen is None else None,
        per_task=per_task if isinstance(per_task, int) else None,
        harness_version=str(lock.get("harness_version") or config.get("harness_version") or "unknown"),
        chosen=None if chosen is None else frozenset(chosen),
    )


def find_attempts(jobs: Iterable[Job]) -> Attempts:
    """The attempts of these jobs. Raises UsageError when there is none."""
    attempts = Attempts()
    for job in jobs:
        _add_job(job, attempts)
    if not attempts.total:
        raise UsageError("no trials in these folders; name the folders of jobs, e.g. jobs/my-job")
    order = {group: position for position, group in enumerate(dict.fromkeys(ref.group_id for ref in attempts.refs))}
    attempts.refs.sort(key=lambda ref: order[ref.group_id])
    return attempts


def _add_job(job: Job, attempts: Attempts) -> None:
    last: dict[tuple[str, str, int], AttemptRef] = {}
    interrupted: list[str] = []
    for folder, result, problem in read_results(job.paths):
        if job.chosen is not None and folder not in job.chosen:
            continue
        if result is None:
            if problem is not None and problem.startswith("no result"):
                interrupted.append(folder)
            else:
                attempts.findings.append(f"{job.name}/{folder}/{problem}")
                attempts.unreadable["record_damaged"] += 1
            continue
        ref = AttemptRef(job, folder, group_of(result), (job.name, result.task_name, result.attempt), result.retry)
        if ref.key in last:
            attempts.superseded += 1
        if ref.key not in last or ref.retry >= last[ref.key].retry:
            last[ref.key] = ref
    attempts.refs += last.values()
    groups = Counter(ref.group_id for ref in last.values())
    attempts.recorded += groups
    attempts.planned.update({group: max(count, job.per_task or 0) for group, count in groups.items()})
    known = len(last) + attempts.unreadable["record_damaged"]
    if job.planned is not None and job.planned > known:
        attempts.unreadable["never_finished"] += job.planned - known
    elif job.planned is None:
        attempts.unreadable["never_finished"] += len(interrupted)


def read_attempt(ref: AttemptRef) -> TrialResult | None:
    """An attempt's record; None if it can no longer be read."""
    try:
        result = load_result(ref.paths.result)
    except (OSError, ValueError):
        return None
    result.attempt = ref.key[2]
    return result


def in_groups(refs: Iterable[AttemptRef]) -> Iterator[tuple[str, list[AttemptRef]]]:
    """The attempts by group, in order."""
    for group, members in groupby(refs, key=lambda ref: ref.group_id):
        yield group, list(members)
