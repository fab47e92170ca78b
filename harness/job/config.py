"""What was asked of a job (`config.json`), and what that resolved to (`lock.json`)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

import harness
from harness.errors import UsageError, first_line
from harness.store.files import read_json
from harness.store.layout import JobPaths
from harness.strict_json import whole
from harness.task.model import BrokenTask, Task


class JobConfig(BaseModel):
    """What the user asked for. Resuming reads it back.

    Attributes:
        dataset: a folder of tasks, a task, a bundled suite's name, or a git URL.
        include, exclude: globs on task names. categories: those of which a task must have one, if any are named.
        n_tasks: how many, after these filters, drawn by `seed` if `shuffle`.
        agent: a built-in name, an `[agents.NAME]` of harness.toml, or module:Class; `options` override its fields.
        n_attempts: attempts of each task. n_concurrent: trials at a time.
        max_sandboxes: live sandboxes at a time, on a backend of a cloud; None leaves the backend's own bound.
        user: an `[agents.NAME]` whose model speaks for the simulated user of tasks; None leaves that to their scripts.
        max_retries: repetitions of an attempt that infrastructure failed.
        agent_timeout, timeout_multiplier: the operator's wishes about time-outs.
        pass_mark: the reward from which an attempt counts as a success.
        sequential: a success rate; the job ends as soon as it is decided on which side of it the agent is. alpha: how
            often that may be wrong.
        allow_unsafe_local: run on the local backend even where it cannot isolate.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    dataset: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    n_tasks: int | None = Field(default=None, ge=1)
    shuffle: bool = False
    seed: int = 0
    agent: str = "oracle"
    model: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    user: str | None = None
    config_file: str | None = None
    backend: str = "local"
    n_attempts: int = Field(default=1, ge=1, le=10_000)
    n_concurrent: int = Field(default=4, ge=1)
    max_sandboxes: int | None = Field(default=None, ge=1)
    max_retries: int = Field(default=2, ge=0)
    retry_base_sec: float = Field(default=2.0, ge=0)
    agent_timeout: float | None = Field(default=None, gt=0)
    timeout_multiplier: float = Field(default=1.0, gt=0)
    pass_mark: float = 1.0
    sequential: float | None = Field(default=None, gt=0, lt=1)
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    allow_unsafe_local: bool = False
    policy_version: str | None = None


class LockedTask(BaseModel):
    """One task of the job, by content."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    path: str
    digest: str


class JobLock(BaseModel):
    """What the job resolved to. Resuming refuses what `differences` names.

    `n_concurrent_trials` and `retry` are there for Harbor's reader.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: int = 1
    created_at: datetime
    job_id: str
    harness_version: str
    agent: dict[str, Any]
    model_name: str | None
    user: dict[str, Any] | None = None
    backend: str
    seed: int
    pass_mark: float
    n_concurrent_trials: int = 1
    retry: dict[str, Any] = Field(default_factory=dict)
    tasks: tuple[LockedTask, ...]

    def differences(self, other: JobLock) -> list[str]:
        """What differs in `other` so that its results could not be mixed with this job's, one line each."""
        found = [
            f"{name}: {getattr(self, name)!r} -> {getattr(other, name)!r}"
            for name in ("agent", "model_name", "user", "backend", "seed", "pass_mark")
            if getattr(self, name) != getattr(other, name)
        ]
        if _major(self.harness_version) != _major(other.harness_version):
            found.append(f"harness: {self.harness_version} -> {other.harness_version}")
        mine = {task.name: task.digest for task in self.tasks}
        theirs = {task.name: task.digest for task in other.tasks}
        found += [f"task {name}: no longer there" for name in sorted(mine.keys() - theirs.keys())]
        found += [f"task {name}: new" for name in sorted(theirs.keys() - mine.keys())]
        found += [f"task {name}: edited" for name in sorted(mine.keys() & theirs.keys()) if mine[name] != theirs[name]]
        return found


def _major(version: str) -> str:
    return version.partition(".")[0]


def locked_tasks(tasks: Iterable[Task | BrokenTask]) -> tuple[LockedTask, ...]:
    """The tasks by name, place and content; a broken one has an empty digest."""
    return tuple(
        LockedTask(name=task.name, path=whole(str(task.path)), digest=task.digest if isinstance(task, Task) else "")
        for task in tasks
    )


def load_job(paths: JobPaths) -> tuple[JobConfig, JobLock]:
    """Read back what a job was asked and what it resolved to. Raises UsageError if the folder is not a job of ours."""
    try:
        raw = read_json(paths.config)
        lock = JobLock.model_validate(read_json(paths.lock))
        return JobConfig.model_validate(raw["harness"]), lock
    except FileNotFoundError as error:
        raise UsageError(f"{paths.root} is not a job folder: {error.filename} is missing") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{paths.root} cannot be read as a job of this harness: {first_line(error)}") from None


def config_document(config: JobConfig, job_name: str, jobs_dir: str) -> dict[str, Any]:
    """`config.json`: the fields that Harbor's reader expects, and ours under `harness`."""
    known = config.backend in {"docker", "daytona", "modal", "e2b"}
    return {
        "schema_version": 1,
        "job_name": job_name,
        "jobs_dir": jobs_dir,
        "n_attempts": config.n_attempts,
        "timeout_multiplier": config.timeout_multiplier,
        "n_concurrent_trials": config.n_concurrent,
        "retry": {"max_retries": config.max_retries},
        "environment": {
            "type": config.backend if known else None,
            "import_path": None if known else f"backends.{config.backend}",
        },
        "agents": [{"name": config.agent, "model_name": config.model, "kwargs": config.options}],
        "datasets": [],
        "tasks": [],
        "harness_version": harness.__version__,
        "harness": config.model_dump(mode="json"),
    }
