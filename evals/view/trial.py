"""One trial: what became of it and why, what its verifier printed, and its trajectory, some steps at a time.

A trial that still runs has no record yet; what its agent has done so far is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from evals.report.attempts import MARKS, Attempt
from evals.report.bodies import judgements
from evals.report.bounds import Bounds
from evals.report.trajectory import Unreadable, load, turn_of, when
from evals.view.files import listed
from evals.view.jobs import pass_mark, status_of
from evals.view.links import events
from evals.view.site import Site
from evals.view.tokens import Rows, read_rows
from harness.atif.model import Trajectory
from harness.errors import first_line
from harness.records import TrialResult
from harness.store.layout import TrialPaths
from harness.store.reader import load_result
from harness.store.rollout.call import MAIN

STEPS = 50
_STRIP = 120
"""Tokens that are shown below a step; the others have a page."""

_ALONE = Bounds(text=1 << 20, call=1 << 20)
"""How much of a step is shown where it stands alone."""

_MOST_ROLLOUT = 64 << 20


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which trajectory of a trial: of a step of the task, and of a sub-agent by its places from the top."""

    part: str | None
    agent: tuple[int, ...]

    @classmethod
    def of(cls, request: Request) -> Chosen:
        """As the address says; what it cannot say is the agent itself."""
        words = request.query_params.get("agent", "").split(".")
        agent = tuple(int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 6)
        return cls(request.query_params.get("part") or None, agent[: Bounds().nested + 3])

    def query(self, **more: Any) -> str:
        """The address's query for this trajectory."""
        fields = {"part": self.part, "agent": ".".join(map(str, self.agent)) or None, **more}
        return "?" + urlencode({name: value for name, value in fields.items() if value is not None})


def trial(site: Site, request: Request) -> Response:
    """A trial."""
    job, name = request.path_params["job"], request.path_params["trial"]
    folder = site.trial(job, name)
    result, problem = record_of(folder / "result.json")
    attempt = Attempt.of(folder, result) if result is not None else None
    chosen = Chosen.of(request)
    rows = rows_of(site, folder, result)
    context = _trajectory(site, request, folder, chosen, rows)
    return site.render(
        "trial.html.j2",
        title=result.task_name if result else name,
        job=job,
        trial=name,
        attempt=attempt,
        accounts=[],
        judgements=list(judgements(attempt)) if attempt else [],
        result=result,
        problem=problem,
        status=_status(result, pass_mark(folder.parent)),
        parts=[part for part in attempt.parts if part] if attempt else [],
        rows=rows,
        files=len(listed(folder)),
        events=events(job=job, trial=name),
        **context,
    )


def record_of(path: Path) -> tuple[TrialResult | None, str | None]:
    """A trial's record, or why there is none."""
    try:
        return load_result(path), None
    except FileNotFoundError:
        return None, "It has no record: it still runs, or was interrupted."
    except (OSError, ValueError) as error:
        return None, f"Its record cannot be read: {first_line(error)}"


def rows_of(site: Site, folder: Path, result: TrialResult | None) -> Rows | None:
    """The trial's tokens, where some were recorded and are not too many to be read for a page."""
    parts: list[str | None] = [step.step_name for step in result.step_results or ()] if result is not None else []
    sizes = [path.stat().st_size for part in parts or [None] if (path := TrialPaths(folder).rollout(part)).is_file()]
    if result is None or not sizes or sum(sizes) > _MOST_ROLLOUT:
        return None
    return read_rows(folder, result)


def _status(result: TrialResult | None, mark: float) -> tuple[str, str, str]:
    """Class, sign and word."""
    if result is None:
        return "missing", "…", "unfinished"
    status = status_of(result.outcome, result.reward, mark)
    return status.value, *MARKS[status]


def _trajectory(site: Site, request: Request, folder: Path, chosen: Chosen, rows: Rows | None) -> dict[str, Any]:
    """The steps that were asked for, each with its tokens; and the ways to the others."""
    context: dict[str, Any] = {
        "chosen": chosen,
        "steps": [],
        "agents": [],
        "why": None,
        "n_steps": 0,
        "first": 1,
        "alone": False,
        "name": None,
        "size": STEPS,
    }
    try:
        path = TrialPaths(folder).trajectory(_part(chosen.part))
        whole = load(folder, path, site.bounds)
        trajectory, session = _descend(whole, chosen.agent)
    except Unreadable as error:
        return {**context, "why": str(error)}
    alone = _number(request, "step", len(trajectory.steps))
    first = alone or _number(request, "from", len(trajectory.steps)) or 1
    began = when(trajectory.steps[0])
    told = rows.by_step(_STRIP if not alone else 5000, site.tokenizer) if rows is not None else {}
    prefix = f"{chosen.part}:" if chosen.part else ""
    steps = trajectory.steps[first - 1 : first if alone else first - 1 + STEPS]
    context |= {"n_steps": len(trajectory.steps), "first": first, "alone": bool(alone), "name": session}
    context["steps"] = [(turn_of(step, began), told.get((prefix + session, step.step_id))) for step in steps]
    context["agents"] = [
        (each.trajectory_id or "sub-agent", len(each.steps), chosen.query(agent=".".join(map(str, (*chosen.agent, n)))))
        for n, each in enumerate(trajectory.subagent_trajectories or ())
    ]
    if alone:
        context["bounds"] = _ALONE
    return context


def _part(name: str | None) -> str | None:
    """A step's name is a folder's; one that leads elsewhere is none."""
    if name is not None and (name in (".", "..") or "/" in name or "\0" in name):
        raise Unreadable("There is no such step.")
    return name


def _descend(trajectory: Trajectory, places: tuple[int, ...]) -> tuple[Trajectory, str]:
    """The trajectory of a sub-agent, and its session. Raises Unreadable where there is none."""
    session = MAIN
    for place in places:
        below = trajectory.subagent_trajectories or []
        if place >= len(below):
            raise Unreadable("There is no such sub-agent.")
        trajectory = below[place]
        session = trajectory.trajectory_id or "sub-agent"
    return trajectory, session


def _number(request: Request, name: str, most: int) -> int | None:
    """A step's number in the address; None where there is none, or no such step."""
    text = request.query_params.get(name, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0
    return number if 1 <= number <= most else None
