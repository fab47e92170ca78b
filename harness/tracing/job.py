"""What of a job its traces tell: read from its folder, ours or Harbor's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness.errors import UsageError
from harness.job.config import LockedTask, load_job
from harness.store.files import read_table
from harness.store.index.folders import is_trial
from harness.store.layout import JobPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """A job. `experiment` is its name on a page where jobs are compared; no two jobs share it."""

    paths: JobPaths
    job_id: str
    name: str
    dataset: str
    started_at: datetime | None = None
    pass_mark: float = 1.0
    n_attempts: int | None = None
    agent: str | None = None
    model: str | None = None
    backend: str | None = None
    tasks: tuple[LockedTask, ...] = ()

    @property
    def experiment(self) -> str:
        """The job's own name, made unique."""
        return f"{self.name}-{self.job_id[:8]}"

    def seed_of(self, trial_name: str) -> str:
        """What the ids of a trial's trace are derived from."""
        return f"{self.job_id}/{trial_name}"


def read_job(folder: Path) -> JobFacts:
    """The facts of the job in `folder`. Raises UsageError for what is no folder of trials."""
    paths = JobPaths(folder)
    name = folder.resolve().name
    try:
        config, lock = load_job(paths)
    except UsageError:
        if not any(map(is_trial, paths.trial_folders())):
            raise UsageError(f"{folder} is not a job's folder; name one, e.g. jobs/my-job") from None
        return JobFacts(paths=paths, job_id=_harbor_id(paths) or name, name=name, dataset=name)
    return JobFacts(
        paths=paths,
        job_id=lock.job_id,
        name=name,
        dataset=Path(config.dataset.rstrip("/")).name or "adhoc",
        started_at=lock.created_at,
        pass_mark=lock.pass_mark,
        n_attempts=config.n_attempts,
        agent=str(lock.agent.get("name") or config.agent),
        model=lock.model_name,
        backend=lock.backend,
        tasks=lock.tasks,
    )


def _harbor_id(paths: JobPaths) -> str | None:
    found = read_table(paths.result).get("id")
    return found if isinstance(found, str) else None
