"""The addresses of the viewer's pages. Names of folders and tasks are quoted to the last character."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, urlencode

from markupsafe import Markup


def path_to(page: str, *names: str) -> str:
    """The path of a page about something, e.g. /trial/JOB/TRIAL."""
    return "/" + "/".join([page, *(quote(name, safe="", errors="surrogateescape") for name in names)])


def trials(*terms: str) -> str:
    """The list of the trials that a filter describes."""
    return "/trials?" + urlencode({"q": " ".join(terms)}, errors="surrogateescape")


def events(**of: str) -> str:
    """The stream of what changes, of a job or of a trial."""
    return "/events?" + urlencode(of, errors="surrogateescape")


def term(name: str, value: str) -> str:
    """A term of the filter language, quoted."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}="{escaped}"'


class ViewLinks:
    """Links of a job's page, or of two: see `evals.report.links.Links`."""

    def __init__(self, jobs: Sequence[str]) -> None:
        self._jobs = jobs

    def category(self, place: int, key: str) -> Markup:
        """To the trials of a category."""
        return _href(trials(term("job", self._jobs[place]), term("category", key)))

    def failure(self, place: int, tag: str) -> Markup:
        """To the trials that failed so."""
        return _href(trials(term("job", self._jobs[place]), term("failure_tag", tag)))

    def task(self, place: int, name: str) -> Markup:
        """To a task's trials."""
        return _href(trials(term("job", self._jobs[place]), term("task", name)))


def _href(url: str) -> Markup:
    return Markup('href="%s"') % url
