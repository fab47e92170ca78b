"""The pages about jobs: all of them, one, what its agents did and spent, and two compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from evals.compare import Comparison, compare
from evals.pairing import pair
from evals.report.attempts import Job, Status
from evals.report.context import comparison_context, job_context, side_by_side
from evals.report.drawings import figures
from evals.view.links import ViewLinks, events, path_to
from evals.view.site import Site
from harness.failures import Outcome
from harness.store.files import read_json
from harness.store.held import is_held
from harness.store.layout import JobPaths, folders_in

PAGE = 50
_TASKS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """A job as its own `result.json` tells it. Unknown is None, as of a job of Harbor's."""

    name: str
    changed: float
    started: str | None = None
    finished: str | None = None
    total: int | None = None
    done: int | None = None
    n: int | None = None
    rate: float | None = None
    interval: tuple[float, float] | None = None
    pass_mark: float = 1.0
    running: bool = False


def glance(paths: JobPaths) -> Glance:
    """What is known at once of a job."""
    try:
        found = paths.result.stat()
        told = _told(paths.result, found.st_mtime_ns, found.st_size)
        changed = found.st_mtime
    except OSError:
        told, changed = {}, paths.root.stat().st_mtime
    return Glance(name=paths.root.name, changed=changed, running=is_held(paths), **told)


def pass_mark(folder: Path) -> float:
    """The reward from which an attempt of a job is a success."""
    try:
        return glance(JobPaths(folder)).pass_mark
    except OSError:
        return 1.0


def status_of(outcome: str | None, reward: float | None, mark: float) -> Status:
    """What became of an execution, whether or not another one replaced it."""
    if outcome not in (Outcome.SCORED, Outcome.AGENT_FAILED):
        return Status.MISSING
    return Status.PASSED if reward is not None and reward >= mark else Status.FAILED


@lru_cache(maxsize=2048)
def _told(path: Path, changed: int, size: int) -> dict[str, Any]:
    """The numbers in a job's document, until it changes. The document may be anything."""
    try:
        document = read_json(path)
        summary = document.get("summary", {})
        overall = summary.get("overall", {})
        interval = overall.get("wilson_95")
        covered = (overall.get("coverage") or 0) >= 0.5
        return {
            "started": str(document["started_at"])[:19].replace("T", " ") if document.get("started_at") else None,
            "finished": str(document["finished_at"])[:19] if document.get("finished_at") else None,
            "total": _count(document.get("n_total_trials")),
            "done": _count(document.get("stats", {}).get("n_completed_trials")),
            "n": _count(overall.get("n")),
            "pass_mark": float(summary.get("pass_mark", 1.0)),
            "rate": float(overall["rate"]) if covered and overall.get("rate") is not None else None,
            "interval": (float(interval[0]), float(interval[1])) if covered and interval else None,
        }
    except (OSError, ValueError, AttributeError, TypeError, KeyError, IndexError):
        return {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_job(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("result.json", "config.json", "lock.json"))


def home(site: Site, request: Request) -> Response:
    """All jobs, the latest first, and the training runs."""
    try:
        names = folders_in(site.folder)
    except OSError:
        names = []
    runs = site.runs.runs()
    folders = [site.folder / name for name in names]
    jobs = [folder for folder in folders if site.runs.pages_of(folder) is None and _is_job(folder)]
    seen = sorted((glance(JobPaths(folder)) for folder in jobs), key=lambda each: (-each.changed, each.name))
    start = max(0, page_number(request) - 1) * PAGE
    return site.render(
        "home.html.j2",
        title="Jobs",
        glances=[_counted(site, each) for each in seen[start : start + PAGE]],
        total=len(seen),
        runs=list(runs.values()),
        page=start // PAGE + 1,
        pages=-(-len(seen) // PAGE),
        events="/events",
    )


def _counted(site: Site, each: Glance) -> Glance:
    """With the index's numbers, where the job's own record has none."""
    if each.n is not None:
        return each
    done, row = site.numbers.row(each.name)
    return replace(each, done=done, total=row.total, n=row.n, rate=row.rate, interval=row.interval)


def page_number(request: Request) -> int:
    """The number of the page that was asked for, from 1."""
    text = request.query_params.get("page", "1")
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 8 else 1


def overview(site: Site, request: Request) -> Response:
    """One job in numbers."""
    paths = site.job(request.path_params["job"])
    job = site.numbers.job(paths.root.name)
    tasks = sorted(job.run.tasks.values(), key=lambda task: (task.rate if task.rate is not None else 2.0, task.name))
    return site.render(
        "job.html.j2",
        title=job.name,
        jobs=[{**job_context(job), "traits": []}],
        compared=None,
        links=ViewLinks([job.name]),
        figures=[],
        figures_at=path_to("figures", job.name),
        glance=glance(paths),
        tasks=tasks[:_TASKS],
        n_tasks=len(tasks),
        events=events(job=job.name),
    )


def behaviour(site: Site, request: Request) -> Response:
    """What a job's agents did, and what that cost."""
    paths = site.job(request.path_params["job"])
    job = site.numbers.job(paths.root.name, behaviour=True)
    return site.render(
        "behaviour.html.j2",
        title=job.name,
        jobs=[job_context(job)],
        spending=side_by_side([job]),
        compared=None,
    )


def comparison(site: Site, request: Request) -> Response:
    """Two jobs, paired by task content."""
    names = [request.query_params.get(each, "") for each in ("a", "b")]
    if "" in names or names[0] == names[1]:
        return site.render("refused.html.j2", title="Compare", why="Choose two different jobs, A and B.")
    jobs = [site.numbers.job(site.job(name).root.name) for name in names]
    found = _compared(site, jobs)
    return site.render(
        "compare.html.j2",
        title=f"{names[0]} and {names[1]}",
        jobs=[{**job_context(job), "traits": []} for job in jobs],
        compared=comparison_context(found),
        links=ViewLinks(names),
        figures=[],
        figures_at=path_to("figures", *names),
    )


def drawings(site: Site, request: Request) -> Response:
    """The figures of a job, or of two compared: a piece of their page, which is there before they are drawn."""
    names = [request.path_params[each] for each in ("job", "other") if each in request.path_params]
    jobs = [site.numbers.job(site.job(name).root.name) for name in names]
    found = _compared(site, jobs) if len(jobs) > 1 else None
    drawn = site.figures.of(jobs, lambda: figures(jobs, found, site.categories))
    return site.render("figures.html.j2", figures=drawn)


def _compared(site: Site, jobs: Sequence[Job]) -> Comparison:
    base, new = (job.run for job in jobs)
    return compare(base, new, pair(base, new), site.categories)
