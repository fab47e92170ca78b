"""Jobs and trials as folders, looked at as cheaply as can be: one `stat` a trial."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import UsageError
from harness.store.files import read_table
from harness.store.layout import JobPaths, folders_in
from harness.strict_json import whole


@dataclass(slots=True)
class Seen:
    """A job's folder as it is on disk.

    Attributes:
        fingerprints: of each trial's `result.json`, by folder. It differs once the record was replaced.
        unfinished: trials without a record: they run, or were interrupted.
        nameless: trials whose folder's name is no text (it is shown as its `ascii`).
    """

    fingerprints: dict[str, str] = field(default_factory=dict)
    unfinished: int = 0
    nameless: list[str] = field(default_factory=list)


def is_job(folder: Path) -> bool:
    """Whether a folder is a job's own, and not one that holds jobs. A trial is neither."""
    if (folder / "lock.json").is_file() and not is_trial(folder):
        return True
    document = read_table(folder / "result.json")
    if not document:
        return (folder / "config.json").is_file() and not (folder / "trial.log").exists()
    return "trial_name" not in document


def is_trial(folder: Path) -> bool:
    """Whether a folder is a trial's: its `result.json` names it."""
    document = read_table(folder / "result.json")
    return "trial_name" in document if document else (folder / "trial.log").is_file()


def require_job(folder: Path) -> JobPaths:
    """The job that a folder is. Raises UsageError for none, and for one that holds jobs."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a job's folder")
    if not is_job(folder):
        jobs = [name for name in folders_in(folder) if is_job(folder / name)]
        if jobs:
            raise UsageError(f"{folder} holds jobs, and is none; name one, e.g. {folder / jobs[-1]}")
    return JobPaths(folder)


def jobs_in(folders: list[Path]) -> list[JobPaths]:
    """The jobs that these folders are, or hold. Raises UsageError for one that is neither."""
    found: dict[Path, JobPaths] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder; name a job, or the folder that holds jobs")
        if is_trial(folder):
            raise UsageError(f"{folder} is a trial; name its job: {folder.parent}")
        below = [folder] if is_job(folder) else [folder / name for name in folders_in(folder)]
        found.update({each.resolve(): JobPaths(each) for each in below})
    return list(found.values())


def look_at(job: Path) -> Seen:
    """A job's trials. Raises OSError when its folder cannot be listed."""
    seen = Seen()
    for name in folders_in(job):
        try:
            found = os.lstat(f"{job}/{name}/result.json")
        except OSError:
            seen.unfinished += _was_meant(f"{job}/{name}")
            continue
        if whole(name) != name:
            seen.nameless.append(ascii(name))
        elif stat.S_ISREG(found.st_mode):
            seen.fingerprints[name] = f"{found.st_mtime_ns}:{found.st_size}:{found.st_ino}"
        else:
            seen.fingerprints[name] = "not a file"
    return seen


def _was_meant(folder: str) -> bool:
    return any(os.path.lexists(f"{folder}/{name}") for name in ("trial.log", "config.json"))
