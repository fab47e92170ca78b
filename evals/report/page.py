"""The page: one file that opens from disk, asks for nothing, and lets nothing in it run but its own script.

The policy admits one style sheet and one script, each by its hash. All text from outside is inert (`inert.py`). The
size is bounded (`bounds.py`), and the same record gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from evals.categories import Category, groups_of, in_order
from evals.compare import Comparison
from evals.report.attempts import MARKS, Attempt, Job, Status
from evals.report.bodies import Key, bodies
from evals.report.bounds import Bounds
from evals.report.context import comparison_context, job_context, side_by_side
from evals.report.drawings import Figure
from evals.report.filters import TEMPLATES, environment, line
from evals.report.links import PageLinks
from evals.run import TaskRun
from harness.errors import UsageError


def write(
    file: Path,
    jobs: Sequence[Job],
    found: Comparison | None,
    drawn: Sequence[Figure],
    categories: Mapping[str, Category],
    bounds: Bounds,
) -> None:
    """Write the page of one job or two; `found` compares the two. Raises UsageError where it cannot be written."""
    templates = environment()
    kept, left_out = bodies(jobs, templates.get_template("attempt.html.j2"), bounds)
    style, script = (Markup((TEMPLATES / name).read_text(encoding="utf-8")) for name in ("report.css", "report.js"))  # noqa: S704
    tasks = _tasks(jobs)
    anchors = {task["name"]: task["anchor"] for task in tasks}
    context = {
        "title": "Report: " + " and ".join(job.name for job in jobs),
        "style": style,
        "script": script,
        "policy": _policy(style, script),
        "jobs": [job_context(job) for job in jobs],
        "compared": comparison_context(found) if found else None,
        "figures": drawn,
        "spending": side_by_side(jobs),
        "tasks": tasks,
        "links": PageLinks(anchors),
        "rows": _rows(jobs, kept, anchors),
        "left_out": left_out,
        # The word first, so that its first letter finds it in the list.
        "statuses": [(status.value, f"{word} {mark}") for status, (mark, word) in MARKS.items()],
        "categories": _groups(jobs, categories),
        "sections": _sections(found),
        "bounds": bounds,
    }
    _write(file, templates.get_template("page.html.j2").generate(context))


def _write(file: Path, pieces: Iterator[str]) -> None:
    """As `store.files.write_atomic` does, but in pieces: whole or not at all."""
    draft = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        try:
            with draft.open("w", encoding="utf-8", errors="replace") as out:
                out.writelines(pieces)
            draft.replace(file)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}; name another file with -o") from error


def _policy(style: str, script: str) -> str:
    def hashed(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return (
        f"default-src 'none'; style-src 'sha256-{hashed(style)}'; script-src 'sha256-{hashed(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _sections(found: Comparison | None) -> list[tuple[str, str]]:
    return [
        ("results", "Results"),
        *([("comparison", "Comparison")] if found else []),
        ("failures", "Failures"),
        ("behaviour", "Behaviour"),
        ("spending", "Cost and time"),
        ("tasks", "Tasks"),
        ("trials", "Trials"),
        ("legend", "How to read this"),
    ]


def _groups(jobs: Sequence[Job], categories: Mapping[str, Category]) -> list[tuple[str, str]]:
    labels = {row.key: row.label for job in jobs for row in job.card.rows}
    return [(key, labels[key]) for key in in_order(labels, categories)]


def _tasks(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """A row per task, with a link to its first attempt."""
    first: dict[str, str] = {}
    for place, job in enumerate(jobs):
        for number, attempt in enumerate(job.attempts):
            first.setdefault(attempt.finished.task_name, _anchor((place, number)))
    rows = []
    for number, name in enumerate(sorted({name for job in jobs for name in job.run.tasks})):
        runs: list[TaskRun | None] = [job.run.tasks.get(name) for job in jobs]
        task = next(run for run in runs if run)
        groups = ", ".join(groups_of(task.categories, task.tags))
        rows.append(
            {"name": name, "anchor": f"task-{number}", "first": first.get(name), "groups": groups, "runs": runs}
        )
    return rows


def _rows(jobs: Sequence[Job], kept: Mapping[Key, bytes], tasks: Mapping[str, str]) -> list[dict[str, Any]]:
    """The trials in the order in which a reader wants to see them: what did not pass first."""
    order = list(Status)
    rows = []
    for place, job in enumerate(jobs):
        for number, attempt in enumerate(job.attempts):
            rows.append(_row(job, attempt, (place, number), kept.get((place, number)), tasks))
    return sorted(rows, key=lambda row: order.index(row["status"]))


def _row(job: Job, attempt: Attempt, key: Key, body: bytes | None, tasks: Mapping[str, str]) -> dict[str, Any]:
    finished, status = attempt.finished, job.status(attempt)
    mark, word = MARKS[status]
    return {
        "place": key[0],
        "anchor": _anchor(key),
        "task_anchor": tasks[finished.task_name],
        "status": status,
        "mark": mark,
        "word": word,
        "groups": [line(group) for group in attempt.groups],
        "task": finished.task_name,
        "attempt": finished.attempt,
        "retry": finished.retry,
        "tag": finished.tag or finished.exception,
        "reward": finished.reward,
        "seconds": finished.seconds,
        "cost": finished.cost,
        "folder": str(attempt.folder),
        # Decoded only when it is written: a page in memory once is enough.
        "body": None if body is None else lambda: Markup(body.decode()),  # noqa: S704
    }


def _anchor(key: Key) -> str:
    return f"{'ab'[key[0]]}-{key[1] + 1}"
