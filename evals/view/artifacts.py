"""The files of a trial: their list, one of them as text that does nothing, and one of them to be kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import BinaryIO

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from evals.view.files import MOST, Refused, listed, open_below, read_below
from evals.view.site import Site

_SHOWN = 400_000
"""Bytes of a file that a page shows; of more, the middle is left out."""

_READ = 8 << 20
_CHUNK = 1 << 18
_INERT = {"content-security-policy": "default-src 'none'; sandbox", "x-content-type-options": "nosniff"}


def files(site: Site, request: Request) -> Response:
    """What lies in a trial's folder."""
    job, name = request.path_params["job"], request.path_params["trial"]
    found = listed(site.trial(job, name))
    return site.render("files.html.j2", title=f"Files of {name}", job=job, trial=name, files=found, most=MOST)


def file(site: Site, request: Request) -> Response:
    """One file, as text."""
    job, name, path = (request.path_params[each] for each in ("job", "trial", "path"))
    folder = site.trial(job, name)
    try:
        data, size = read_below(folder, path, _READ)
    except Refused as error:
        raise HTTPException(404, str(error)) from error
    return site.render(
        "file.html.j2",
        title=path,
        job=job,
        trial=name,
        path=path,
        text=None if b"\0" in data[:8000] else data.decode("utf-8", "replace"),
        size=size,
        cut=size > len(data),
        most=_SHOWN,
    )


def raw(site: Site, request: Request) -> Response:
    """One file, to be kept: never shown by the browser, whatever it holds."""
    job, name, path = (request.path_params[each] for each in ("job", "trial", "path"))
    try:
        descriptor = open_below(site.trial(job, name), path)
    except Refused as error:
        raise HTTPException(404, str(error)) from error
    opened, size = os.fdopen(descriptor, "rb"), os.fstat(descriptor).st_size
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", path.rpartition("/")[2])[-100:] or "file"
    headers = {"content-disposition": f'attachment; filename="{safe}"', "content-length": str(size), **_INERT}
    return StreamingResponse(_pieces(opened, size), media_type="text/plain; charset=utf-8", headers=headers)


def _pieces(opened: BinaryIO, size: int) -> Iterator[bytes]:
    """As many bytes as were promised, of a file that may grow or shrink meanwhile."""
    with opened:
        while size > 0:
            piece = opened.read(min(_CHUNK, size)) or b"\n" * min(_CHUNK, size)
            size -= len(piece)
            yield piece
