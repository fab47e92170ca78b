"""Removing executions that a later one of the same attempt replaced. An attempt's last execution is never removed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.records import TrialResult
from harness.store.held import JobBusy, held
from harness.store.layout import JobPaths
from harness.store.reader import load_result

_GOING = ".pruned."
"""Begins the name of a folder that is being removed: it is no trial any more, whatever is left of it."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """An execution that a later one replaced. `size`: bytes on disk; `ended`: when it was over, at the latest."""

    folder: Path
    by: str
    size: int
    ended: datetime


def superseded(paths: JobPaths, *, older_than: datetime | None = None) -> Iterator[Superseded]:
    """A job's executions that may go: a later execution of the same attempt has a record that can be read.

    `older_than` keeps those that ended after that moment.
    """
    last: dict[tuple[str, int], tuple[int, str]] = {}
    known: dict[str, TrialResult] = {}
    for folder in paths.trial_folders():
        try:
            result = load_result(folder / "result.json")
        except (OSError, ValueError):
            continue
        if "attempt" in result.model_fields_set:  # Harbor's records number none, and it keeps no repetitions
            known[folder.name] = result
            key = (result.task_name, result.attempt)
            last[key] = max(last.get(key, (-1, "")), (result.retry, folder.name))
    for name, result in known.items():
        retry, later = last[(result.task_name, result.attempt)]
        if result.retry < retry:
            folder = paths.trial(name).root
            ended = _ended(folder, result)
            if older_than is None or ended < older_than:
                yield Superseded(folder, later, _size(folder), ended)


def remove(found: Superseded) -> None:
    """Remove the folder. Killed in the middle, it has either all of it or is no trial any more. Raises OSError."""
    going = found.folder.with_name(f"{_GOING}{found.folder.name}")
    found.folder.rename(going)
    shutil.rmtree(going)


def sweep(paths: JobPaths) -> None:
    """Remove what a prune that was killed has left; not where another process holds the job: it may be pruning."""
    if left := list(paths.root.glob(f"{_GOING}*")):
        with suppress(JobBusy), held(paths):
            for folder in left:
                shutil.rmtree(folder, ignore_errors=True)


def _ended(folder: Path, result: TrialResult) -> datetime:
    moment = result.finished_at
    if moment is None:
        return datetime.fromtimestamp((folder / "result.json").stat().st_mtime, UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        total += sum(Path(parent, name).lstat().st_blocks * 512 for name in names)
    return total
