"""A trial's tokens as the export would write them: each row, a page of tokens at a time, with the loss mask."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from evals.view.site import Site
from evals.view.tokens import LEVELS
from evals.view.trial import record_of, rows_of

PAGE = 2000


def rows(site: Site, request: Request) -> Response:
    """The tokens of one row."""
    job, name = request.path_params["job"], request.path_params["trial"]
    folder = site.trial(job, name)
    result, problem = record_of(folder / "result.json")
    found = rows_of(site, folder, result)
    if found is None or not found.rows:
        why = problem or "No sampled tokens were recorded, or so many that a page cannot show them."
        return site.render("refused.html.j2", title="Tokens", why=why)
    row = min(_number(request, "row"), len(found.rows) - 1)
    length = len(found.rows[row].token_ids)
    start = min(_number(request, "at"), max(0, length - 1)) // PAGE * PAGE
    context: dict[str, Any] = {
        "found": found,
        "row": row,
        "start": start,
        "end": min(length, start + PAGE),
        "length": length,
        "size": PAGE,
        "levels": LEVELS,
        "spans": [span for span in found.rows[row].spans if span.end > start and span.start < start + PAGE],
        "tokens": list(found.tokens(row, start, start + PAGE, site.tokenizer)),
        "texts": site.tokenizer is not None,
    }
    return site.render("rows.html.j2", title=f"Tokens of {name}", job=job, trial=name, **context)


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0
