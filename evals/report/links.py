"""Where the parts of a page point to, as attributes of a link: in a report, to other places of the same page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from markupsafe import Markup

from evals.report.filters import line


class Links(Protocol):
    """What the sections' templates ask for. `place` is 0 for the first job and 1 for the second."""

    def category(self, place: int, key: str) -> Markup:
        """To the trials of a category."""

    def failure(self, place: int, tag: str) -> Markup:
        """To the trials that failed so."""

    def task(self, place: int, name: str) -> Markup:
        """To a task."""


class PageLinks:
    """Links of a report: its script filters the trials that it holds."""

    def __init__(self, tasks: Mapping[str, str]) -> None:
        """`tasks`: the anchor of each task's row."""
        self._tasks = tasks

    def category(self, place: int, key: str) -> Markup:
        """See `Links`."""
        return Markup('href="#trials" data-category="%s"') % line(key)

    def failure(self, place: int, tag: str) -> Markup:
        """See `Links`."""
        return Markup('href="#trials" data-find="%s"') % line(tag.replace("_", " "))

    def task(self, place: int, name: str) -> Markup:
        """See `Links`."""
        return Markup('href="#%s"') % self._tasks[name]
