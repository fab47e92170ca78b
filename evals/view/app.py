"""The addresses: which page answers which path. Pages are made in threads, for they read files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from evals.report.filters import TEMPLATES
from evals.view import artifacts, jobs, live, rows, trial, trials
from evals.view.guard import Guard
from evals.view.site import HERE, Site
from harness.errors import UsageError

Page = Callable[[Site, Request], Response]
STATIC = {
    "report.css": (TEMPLATES / "report.css", "text/css"),
    "view.css": (HERE / "static" / "view.css", "text/css"),
    "view.js": (HERE / "static" / "view.js", "text/javascript"),
    "icon.svg": (HERE / "static" / "icon.svg", "image/svg+xml"),
}


def application(site: Site, token: str, port: int, stop: asyncio.Event) -> ASGIApp:
    """Everything, behind its guard."""

    def page(made: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            site.index.ask()
            return await run_in_threadpool(made, site, request)

        return answer

    async def events(request: Request) -> Response:
        return live.events(site, request, stop)

    async def refused(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        why = error.detail if isinstance(error, HTTPException) else str(error)
        answer = await run_in_threadpool(site.render, "refused.html.j2", title="Not here", why=why)
        return HTMLResponse(answer.body, status)

    routes = [
        Route("/", page(jobs.home)),
        Route("/job/{job}", page(jobs.overview)),
        Route("/behaviour/{job}", page(jobs.behaviour)),
        Route("/figures/{job}", page(jobs.drawings)),
        Route("/figures/{job}/{other}", page(jobs.drawings)),
        Route("/compare", page(jobs.comparison)),
        Route("/trials", page(trials.trials)),
        Route("/trial/{job}/{trial}", page(trial.trial)),
        Route("/tokens/{job}/{trial}", page(rows.rows)),
        Route("/files/{job}/{trial}", page(artifacts.files)),
        Route("/file/{job}/{trial}/{path:path}", page(artifacts.file)),
        Route("/raw/{job}/{trial}/{path:path}", page(artifacts.raw)),
        Route("/training/{run}", page(_training)),
        Route("/static/{name}", _static),
        Route("/events", events),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: refused, UsageError: refused})
    return Guard(app, token, port)


async def _static(request: Request) -> Response:
    try:
        path, kind = STATIC[request.path_params["name"]]
    except KeyError:
        raise HTTPException(404, "There is no such file.") from None
    return FileResponse(path, media_type=kind, headers={"cache-control": "max-age=60"})


def _training(site: Site, request: Request) -> Response:
    """The trainer's own report of a run, under its own policy."""
    found = site.runs.runs().get(request.path_params["run"])
    if found is None:
        raise HTTPException(404, "There is no such run.")
    page, policy = found.pages.page(found.folder, "/")
    return HTMLResponse(page.encode("utf-8", "replace"), headers={"content-security-policy": policy})
