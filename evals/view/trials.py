"""Trials by whatever the index knows, a page at a time; or counted by a column."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from evals.report.attempts import MARKS
from evals.view.jobs import page_number, pass_mark, status_of
from evals.view.links import term
from evals.view.site import Site
from harness.errors import UsageError
from harness.failures import Outcome
from harness.store.index.fields import FIELDS
from harness.store.index.filter import parse_filter
from harness.store.trajectories import StoredTrial

PAGE = 100
_COUNTED = 1000


def trials(site: Site, request: Request) -> Response:
    """The trials of a filter, the latest first."""
    text = request.query_params.get("q", "").strip()
    context: dict[str, Any] = {"q": text, "title": "Trials", "fields": list(FIELDS.values()), "why": None, "by": None}
    context |= {"rows": [], "counted": [], "total": 0, "page": 1, "pages": 1, "more": ""}
    try:
        by = parse_filter(text).by
        found = _counted(site, text, by) if by else _listed(site, text, page_number(request))
    except UsageError as error:
        found = {"why": str(error)}
    return site.render("trials.html.j2", **{**context, **found})


def _listed(site: Site, text: str, page: int) -> dict[str, Any]:
    total = site.index.store.count(text)
    pages = max(1, -(-total // PAGE))
    page = min(page, pages)
    found = list(site.index.store.query(text, limit=PAGE, offset=(page - 1) * PAGE))
    marks = {job: pass_mark(site.folder / job) for job in {each.row.job for each in found}}
    rows = [_row(each, marks[each.row.job]) for each in found]
    return {"rows": rows, "total": total, "page": page, "pages": pages, "more": "/trials?" + urlencode({"q": text})}


def _row(each: StoredTrial, mark: float) -> dict[str, Any]:
    status = status_of(each.row.outcome, each.row.reward, mark)
    return {"status": status.value, "mark": MARKS[status][0], "row": each.row}


def _counted(site: Site, text: str, by: str) -> dict[str, Any]:
    rows = site.index.store.counts(text)
    rest = " ".join(word for word in text.split() if not word.startswith("by:"))
    name = FIELDS[by].name
    counted = [
        {
            "value": each[by],
            "trials": each["trials"],
            "reward": each["mean_reward"],
            "outcomes": [each[outcome.value] for outcome in Outcome],
            "query": f"{rest} {name}=none" if each[by] is None else f"{rest} {term(name, str(each[by]))}",
        }
        for each in rows[:_COUNTED]
    ]
    return {"by": by, "counted": counted, "outcomes": [outcome.value for outcome in Outcome], "total": len(rows)}
