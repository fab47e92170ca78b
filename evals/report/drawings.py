"""Which figures a report has, and the words that go with each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from evals.categories import Category
from evals.compare import Comparison
from evals.report.attempts import Job
from evals.report.figures.canvas import Canvas
from evals.report.figures.differences import differences
from evals.report.figures.forest import MOST_ROWS, forest
from evals.report.figures.passk import curves_of, passk
from evals.report.figures.radar import radar, why_not
from harness.errors import UsageError
from harness.store.files import write_atomic


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure as the page shows it; `canvas` is None where there is nothing to draw, and the caption says why."""

    name: str
    title: str
    caption: str
    canvas: Canvas | None

    @property
    def svg(self) -> Markup | None:
        """The drawing as an element, every label of it escaped."""
        return Markup(self.canvas.svg(f"{self.title}. {self.caption}")) if self.canvas else None  # noqa: S704


def figures(jobs: Sequence[Job], found: Comparison | None, categories: Mapping[str, Category]) -> list[Figure]:
    """In the order of the page."""
    cards = [job.card for job in jobs]
    runs = "" if len(jobs) == 1 else " A: blue disc; B: orange square."
    more = max(len(card.rows) for card in cards) - MOST_ROWS
    cut = f" The table below has {more} more." if more > 0 else ""
    drawn = [
        _figure(
            "forest",
            "Success by category",
            f"Bars are 95% intervals; a hollow mark has too few tasks to say much.{runs}{cut}",
            (lambda: forest(cards)) if any(card.all.n for card in cards) else None,
            "No attempt that counts: nothing to show yet.",
        ),
        _figure(
            "radar",
            "Radar",
            f"The band is the 95% interval. A category that was not run, or on too few tasks, is a gap.{runs}",
            None if (why := why_not(cards, categories)) else lambda: radar(cards, categories),
            why or "",
        ),
    ]
    if any(card.pass_at for card in cards):
        curves = [curves_of(job.run, job.card.pass_at, job.card.pass_hat) for job in jobs]
        drawn.append(
            _figure(
                "pass-at-k",
                "Several attempts",
                "Solid with discs: one of k attempts passes. Dashed with squares: all k pass. Bands: 95%, over tasks."
                + (" A: blue; B: orange." if runs else ""),
                lambda: passk(curves),
                "",
            )
        )
    if found and found.overall:
        drawn.append(
            _figure(
                "differences",
                "B minus A",
                "The paired difference of success rates, with its 95% interval; n is the number of tasks.",
                lambda: differences(found),
                "",
            )
        )
    return drawn


def _figure(name: str, title: str, caption: str, draw: Callable[[], Canvas] | None, instead: str) -> Figure:
    return Figure(name=name, title=title, caption=caption if draw else instead, canvas=draw() if draw else None)


def save(drawn: Sequence[Figure], folder: Path) -> list[Path]:
    """Every figure as a PNG in `folder`, which is made. Raises UsageError with one line."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each in drawn:
            if each.canvas is not None:
                written.append(folder / f"{each.name}.png")
                write_atomic(written[-1], each.canvas.png(), durable=False)
    except OSError as error:
        raise UsageError(f"cannot write figures to {folder}: {error.strerror}") from error
    return written
