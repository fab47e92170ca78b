"""What changes, told as it happens: server-sent events, one for each change, from the folders growing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from evals.view.jobs import glance
from evals.view.links import term
from evals.view.site import Site
from harness.store.layout import JobPaths, TrialPaths, folders_in

_LOOK_SEC = 1.0
_SILENCE_SEC = 15.0

State = dict[str, Any]


def events(site: Site, request: Request, stop: asyncio.Event) -> Response:
    """A stream of states, of a job, of a trial, or of all jobs; the first at once."""
    look: Callable[[], State] = partial(_all, site)
    if job := request.query_params.get("job"):
        trial = request.query_params.get("trial")
        look = partial(_trial, TrialPaths(site.trial(job, trial))) if trial else partial(_job, site, site.job(job))
    return StreamingResponse(_told(site, look, stop), media_type="text/event-stream")


async def _told(site: Site, look: Callable[[], State], stop: asyncio.Event) -> AsyncIterator[str]:
    last: State | None = None
    silent = 0.0
    while not stop.is_set():
        site.index.ask()
        state = await asyncio.to_thread(look)
        if state != last:
            last, silent = state, 0.0
            yield f"data: {json.dumps(state)}\n\n"
        elif silent >= _SILENCE_SEC:
            silent = 0.0
            yield ": here\n\n"
        silent += _LOOK_SEC
        try:
            await asyncio.wait_for(stop.wait(), _LOOK_SEC)
        except TimeoutError:
            continue


def _all(site: Site) -> State:
    try:
        jobs = [(site.folder / name).stat().st_mtime_ns for name in folders_in(site.folder)]
    except OSError:
        jobs = []
    return {"version": f"{site.index.version}.{len(jobs)}.{max(jobs, default=0)}", **_index(site)}


def _job(site: Site, paths: JobPaths) -> State:
    try:
        now = glance(paths)
    except OSError:
        return {"version": "gone"}
    seen, newest = site.index.store.state(term("job", paths.root.name))
    done = now.done if now.done is not None else seen
    return {
        "version": f"{seen}.{newest}.{now.changed}",
        "done": done,
        "total": now.total,
        "running": now.running,
        **_index(site),
    }


def _trial(paths: TrialPaths) -> State:
    stamps = []
    for path in (paths.result, paths.trajectory()):
        try:
            found = path.stat()
            stamps.append(f"{found.st_mtime_ns}.{found.st_size}")
        except OSError:
            stamps.append("")
    return {"version": "/".join(stamps)}


def _index(site: Site) -> State:
    return {"indexed": site.index.complete, "read": site.index.read, "trouble": site.index.trouble}
