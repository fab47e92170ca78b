"""Tasks in a folder: the folder itself, its children, or their children."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import UsageError
from harness.task.loader import load_task
from harness.task.model import BrokenTask, Task
from harness.task.tree import show_path


def find_tasks(root: Path, source: str | None) -> list[Task | BrokenTask]:
    """Every task in `root`, sorted by folder; `[root]` if it is one itself. Raises UsageError if it cannot be read.

    A child that is a link out of `root` is a broken task: a dataset from elsewhere must not reach into the host.
    """
    if _is_marked(root):
        return [load_task(root, source)]
    real_root = os.path.realpath(root)
    found: list[Task | BrokenTask] = []
    for child in _folders(root):
        folders = [child] if _looks_like_task(child) else [path for path in _folders(child) if _looks_like_task(path)]
        for folder in folders:
            if os.path.realpath(folder).startswith(f"{real_root}/"):
                found.append(load_task(folder, source))
            else:
                name = show_path(folder.name)
                reason = "is a link that leaves the dataset's folder"
                found.append(BrokenTask(name=name, path=folder, source=source, reason=reason))
    return found


def _folders(root: Path) -> list[Path]:
    try:
        children = sorted(root.iterdir(), key=lambda path: os.fsencode(path.name))
        return [path for path in children if not path.name.startswith(".") and path.is_dir()]
    except OSError as error:
        raise UsageError(f"{show_path(str(root))} cannot be read: {error.strerror}") from None


def _is_marked(folder: Path) -> bool:
    return os.path.lexists(folder / "task.toml") or os.path.lexists(folder / "instruction.md")


def _looks_like_task(folder: Path) -> bool:
    return _is_marked(folder) or ((folder / "environment").is_dir() and (folder / "tests").is_dir())
