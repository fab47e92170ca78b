"""The figures of jobs, drawn once until the jobs change, and one at a time: what draws them has global settings."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evals.report.attempts import Job
from evals.report.drawings import Figure

_KEPT = 12


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure as the templates take it; see `evals.report.drawings.Figure`."""

    name: str
    title: str
    caption: str
    svg: Markup | None


class Figures:
    """May be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, ...], tuple[Sequence[Job], list[Drawn]]] = OrderedDict()

    def of(self, jobs: Sequence[Job], draw: Callable[[], list[Figure]]) -> list[Drawn]:
        """The figures of these jobs."""
        key = tuple(job.name for job in jobs)
        with self._lock:
            known = self._known.get(key)
            if known is None or any(old is not new for old, new in zip(known[0], jobs, strict=True)):
                drawn = [Drawn(each.name, each.title, each.caption, each.svg) for each in draw()]
                self._known[key] = known = (jobs, drawn)
            self._known.move_to_end(key)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            return known[1]

    def warm_up(self) -> None:
        """Load what the first figure would wait for."""
        from evals.report.figures.canvas import Canvas

        with self._lock:
            Canvas(10, 10).svg("")
