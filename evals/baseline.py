"""A baseline file: what of a run a comparison needs, small enough to keep in a repository or a cache.

{"format": "harness-baseline", "version": 1, "job": ..., "tasks": [{"name": ..., "digest": ..., ...}], ...}
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evals.git import GIT, read_from_git
from evals.run import Run, TaskRun, run_of_job
from harness import strict_json
from harness.errors import UsageError
from harness.records import now
from harness.store.files import read_json, to_json, write_atomic

FORMAT, VERSION = "harness-baseline", 1


class _Task(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    name: str
    digest: str
    total: int = Field(ge=0)
    counted: int = Field(ge=0)
    passed: int = Field(ge=0)
    rewards: float
    categories: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    cost: float | None = None
    priced: int = Field(0, ge=0)
    unscored: dict[str, int] = {}
    seconds: float | None = None

    @model_validator(mode="after")
    def _counts_fit(self) -> _Task:
        if not self.passed <= self.counted <= self.total:
            raise ValueError("passed <= counted <= total does not hold")
        if self.cost is not None and not self.priced:
            raise ValueError("a cost of no attempt")
        return self


class _Baseline(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    job: str
    agent: str
    model: str | None
    pass_mark: float
    outcomes: dict[str, int]
    unplaced: int = Field(0, ge=0)
    tasks: tuple[_Task, ...]


def save_baseline(run: Run, file: Path) -> None:
    """Write a run as a baseline, whole or not at all. Raises UsageError where the file cannot be written."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "saved_at": now().isoformat(),
        "job": Path(run.label).name,
        "agent": run.agent,
        "model": run.model,
        "pass_mark": run.pass_mark,
        "dataset_digest": run.dataset_digest,
        "outcomes": dict(run.outcomes),
        "unplaced": run.unplaced,
        "tasks": [_task_document(task) for task in run.tasks.values()],
    }
    try:
        write_atomic(file, to_json(document))
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from error


def _task_document(task: TaskRun) -> dict[str, Any]:
    return {name: getattr(task, name) for name in _Task.model_fields}


def load_run(path: Path) -> Run:
    """The run in a job's folder, or one saved as a baseline: in a file, or in git as git:REF:PATH.

    Raises UsageError with one line.
    """
    if str(path).startswith(GIT):
        return _parse_baseline(lambda: strict_json.loads(read_from_git(str(path))), str(path))
    return _parse_baseline(lambda: read_json(path), str(path)) if path.is_file() else run_of_job(path)


def _parse_baseline(read: Callable[[], Any], file: str) -> Run:
    try:
        document = read()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except (json.JSONDecodeError, ValueError) as error:
        raise UsageError(f"{file} is not a baseline: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UsageError(f"{file} is not a baseline; make one with: harness baseline save JOB {file}")
    if document.get("version") != VERSION:
        raise UsageError(f"{file} is a baseline of version {document.get('version')!r}; this harness reads {VERSION}")
    try:
        saved = _Baseline.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{file} is damaged at {where or 'its top'}: {first['msg']}") from None
    return Run(
        label=f"{file} ({saved.job})",
        pass_mark=saved.pass_mark,
        agent=saved.agent,
        model=saved.model,
        tasks={task.name: TaskRun(**task.model_dump()) for task in saved.tasks},
        outcomes=saved.outcomes,
        unplaced=saved.unplaced,
    )
