"""What a path on the command line is, and at which page the viewer opens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evals.view.links import path_to
from harness.errors import UsageError
from harness.store.index.folders import is_job, is_trial


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of jobs, the training runs that were named by it, and the path of the first page."""

    folder: Path
    runs: tuple[Path, ...] = ()
    path: str = "/"


def place_of(path: Path) -> Place:
    """A folder of jobs; or a trial, a job or a run within one. Raises UsageError for what is no folder."""
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder; name the folder that holds jobs, e.g.: harness view jobs")
    whole = path.resolve()
    if (path / "run.json").is_file():
        return Place(whole.parent, (path,), path_to("training", whole.name))
    if is_trial(path):
        return Place(whole.parent.parent, (), path_to("trial", whole.parent.name, whole.name))
    if is_job(path):
        return Place(whole.parent, (), path_to("job", whole.name))
    return Place(path)
