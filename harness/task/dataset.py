"""From what a user writes to the tasks that are meant: found, filtered, shuffled and cut, in that order."""

from __future__ import annotations

import difflib
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from harness.errors import UsageError
from harness.task.discover import find_tasks
from harness.task.git import PREFIX, fetch, parse_git_reference
from harness.task.model import BrokenTask, Finding, Task
from harness.task.suites import bundled_suites
from harness.task.tree import show_path


def load_dataset(
    reference: str,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    categories: Sequence[str] = (),
    n: int | None = None,
    seed: int | None = None,
) -> list[Task | BrokenTask]:
    """The tasks that `reference` names; broken ones are among them and stop nobody.

    Args:
        reference: a bundled suite (`hello`) or one of its tasks (`hello/greeting`), a folder of tasks, a task's
            folder, or `git+URL@revision#path`. A folder called like a suite is written `./hello`.
        include: globs on names, of which one must match; all match if there are none.
        exclude: globs on names, of which none may match.
        categories: those of which a task must have one; all tasks are kept if there are none.
        n: how many to keep, after the filters; None keeps all.
        seed: shuffles before `n` cuts, the same way each time; None keeps the order of names.

    Raises UsageError where the reference leads nowhere or nothing remains.
    """
    if n is not None and n < 1:
        raise UsageError(f"the number of tasks must be at least 1, not {n}")
    tasks = _name_apart(_find(reference))
    if not tasks:
        raise UsageError(f"{show_path(reference)} holds no tasks: a task is a folder with a task.toml")
    chosen = [task for task in tasks if _matches(task, include or ("*",)) and not _matches(task, exclude)]
    if not chosen:
        raise UsageError(_nothing_left(reference, tasks, include, exclude))
    if categories:
        chosen = _of_categories(chosen, categories, reference)
    if seed is not None:
        random.Random(seed).shuffle(chosen)  # noqa: S311 - a repeatable order, no secret
    return chosen[:n]


def _find(reference: str) -> list[Task | BrokenTask]:
    if reference.startswith(PREFIX):
        checkout = fetch(parse_git_reference(reference))
        return find_tasks(checkout.folder, checkout.source)
    suites = bundled_suites()
    suite, _, task = reference.partition("/")
    if suite in suites and not task:
        return find_tasks(suites[suite], suite)
    folder = _folder(reference)
    if folder is not None:
        return find_tasks(folder, show_path(folder.resolve().name))
    if suite in suites:
        tasks = {path.path.name: path for path in find_tasks(suites[suite], suite)}
        if task in tasks:
            return [tasks[task]]
        raise UsageError(f"the suite {suite} has no task {show_path(task)!r}{_closest(task, list(tasks))}")
    if "://" in reference:
        raise UsageError("a dataset in git is written git+https://host/repo.git@revision#path")
    names = ", ".join(suites) or "none installed"
    raise UsageError(
        f"no dataset {show_path(reference)!r}: neither a folder nor a bundled suite (bundled: {names})"
        f"{_closest(reference, [*suites, *_neighbours(reference)])}"
    )


def _folder(reference: str) -> Path | None:
    try:
        path = Path(reference).expanduser()
        if not reference or not path.exists():
            return None
    except (OSError, ValueError, RuntimeError):  # too long, a NUL byte, no such home
        return None
    if not path.is_dir():
        raise UsageError(f"{show_path(reference)} is a file; a dataset is a folder of tasks")
    return path


def _neighbours(reference: str) -> list[str]:
    """Folders next to the one that is missing, written as the user would."""
    try:
        path = Path(reference).expanduser()
        return [str(path.parent / item.name) for item in path.parent.iterdir() if item.is_dir()]
    except (OSError, ValueError, RuntimeError):
        return []


def _names(task: Task | BrokenTask) -> tuple[str, str, str]:
    return task.name, task.name.rpartition("/")[2], task.path.name


def _matches(task: Task | BrokenTask, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for name in _names(task) for glob in globs)


def _of_categories(
    tasks: Sequence[Task | BrokenTask], categories: Sequence[str], reference: str
) -> list[Task | BrokenTask]:
    """The tasks that have one of the categories; a broken one has none. Raises UsageError for one that no task has."""
    there = sorted({name for task in tasks if isinstance(task, Task) for name in task.categories})
    for name in categories:
        if name not in there:
            known = ", ".join(map(show_path, there)) or "none"
            hint = f"{_closest(name, there)} (categories: {known})"
            raise UsageError(f"no task of {show_path(reference)} is of category {name!r}{hint}")
    return [task for task in tasks if isinstance(task, Task) and not set(categories).isdisjoint(task.categories)]


def _name_apart(tasks: list[Task | BrokenTask]) -> list[Task | BrokenTask]:
    """Give tasks that share a name the folder in addition: results are kept by name."""
    counts = Counter(task.name for task in tasks)
    return [task if counts[task.name] == 1 else _renamed(task) for task in tasks]


def _renamed(task: Task | BrokenTask) -> Task | BrokenTask:
    folder = f"{show_path(task.path.parent.name)}/{show_path(task.path.name)}"
    name = f"{task.name}@{folder}"
    if isinstance(task, BrokenTask):
        return replace(task, name=name)
    message = f"another task of the dataset is also called {task.name!r}; here it is {name!r}"
    finding = Finding(path="task.toml", key="task.name", message=message)
    return replace(task, name=name, findings=(*task.findings, finding))


def _nothing_left(
    reference: str, tasks: Sequence[Task | BrokenTask], include: Sequence[str], exclude: Sequence[str]
) -> str:
    tried = [f"include {', '.join(map(repr, include))}"] if include else []
    tried += [f"exclude {', '.join(map(repr, exclude))}"] if exclude else []
    plain = [glob.strip("*?") for glob in include]
    hint = next((text for glob in plain if (text := _closest(glob, [task.name for task in tasks]))), "")
    return f"none of the {len(tasks)} tasks of {show_path(reference)} is left by {' and '.join(tried)}{hint}"


def _closest(word: str, names: list[str]) -> str:
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(close)}?" if close else ""
