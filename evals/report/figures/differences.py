"""The paired difference of two runs, by category and overall, each with its interval around nothing."""

from __future__ import annotations

import math

from evals.compare import Comparison
from evals.difference import Difference, points
from evals.report.figures.canvas import Anchor, Canvas, fits
from evals.report.figures.colours import GRID, INK, MUTED, SECOND

WIDTH = 480
MOST_ROWS = 24
_LEFT, _RIGHT = 10.0, WIDTH - 10.0
_STEP = 39


def differences(found: Comparison) -> Canvas:
    """Right of the middle the second run is better. Needs an overall difference."""
    assert found.overall is not None
    shown = found.categories[:MOST_ROWS]
    widest = max(abs(end) for row in (found.overall, *(each.difference for each in shown)) for end in row.interval)
    reach = min(1.0, max(0.1, math.ceil(widest * 10) / 10))
    bottom = 22 + _STEP * (len(shown) + 1)
    canvas = Canvas(WIDTH, bottom + 38)

    def x(value: float) -> float:
        return (_LEFT + _RIGHT) / 2 + (_RIGHT - _LEFT) / 2 * max(-1.0, min(1.0, value / reach))

    for tick in (-reach, -reach / 2, 0, reach / 2, reach):
        if tick == 0:
            canvas.line([(x(tick), 8), (x(tick), bottom)], GRID)
        canvas.line([(x(tick), bottom - 4), (x(tick), bottom + 2)], MUTED)
        anchor: Anchor = "left" if tick == -reach else "right" if tick == reach else "center"
        canvas.text((x(tick), bottom + 12), f"{100 * tick:+.0f}pp", MUTED, size=11, anchor=anchor)
    canvas.text((_LEFT, bottom + 28), "A passes more often", MUTED, size=11)
    canvas.text((_RIGHT, bottom + 28), "B passes more often", MUTED, size=11, anchor="right")

    def row(top: float, label: str, of: Difference, *, few: bool = False, bold: bool = False) -> None:
        low, high = of.interval
        canvas.text((_LEFT, top), fits(label, 30), INK, size=13, bold=bold)
        facts = f"{points(of.value, sign=True)}, n={of.tasks}" + (" (few)" if few else "")
        canvas.text((_RIGHT, top), facts, MUTED, size=11.5, anchor="right")
        y = top + 15
        canvas.line([(_LEFT, y), (_RIGHT, y)], GRID)
        canvas.line([(x(low), y), (x(high), y)], SECOND, 3.5)
        for end in (low, high):
            canvas.line([(x(end), y - 4), (x(end), y + 4)], SECOND, 1.5)
        canvas.dot((x(of.value), y), SECOND, shape="square", hollow=few, size=11)

    for place, each in enumerate(shown):
        row(22 + _STEP * place, each.label, each.difference, few=each.few)
    top = 30 + _STEP * len(shown)
    canvas.line([(_LEFT, top - 15), (_RIGHT, top - 15)], MUTED)
    row(top, "All tasks", found.overall, bold=True)
    return canvas
