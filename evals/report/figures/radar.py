"""The radar: a spoke per category. What was not measured, or on too few tasks, is a gap and never a zero."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from evals.categories import Category, in_order
from evals.report.figures.canvas import Anchor, Canvas, Point, Shape, fits
from evals.report.figures.colours import GRID, INK, MUTED, RUNS
from evals.scorecard import Row, Scorecard

LEAST, MOST = 3, 16
"""Spokes that make a shape, and spokes that can still be read."""

_WIDTH, _HEIGHT, _RADIUS = 480.0, 430.0, 146.0
_CENTRE = (_WIDTH / 2, _HEIGHT / 2)
_SHAPES: tuple[Shape, Shape] = ("disc", "square")


def spokes(cards: Sequence[Scorecard], categories: Mapping[str, Category]) -> list[str]:
    """The categories that a radar of these cards has: all that are known, measured or not, and those of the cards."""
    found = {row.key for card in cards for row in card.rows}
    known = {key for key, category in categories.items() if category.radar}
    off = {key for key, category in categories.items() if not category.radar}
    return in_order((known if found & known else set()) | (found - off), categories)


def measured(card: Scorecard) -> dict[str, Row]:
    """The groups that have a point on their spoke."""
    return {row.key: row for row in card.rows if row.rate is not None and row.interval is not None and not row.few}


def why_not(cards: Sequence[Scorecard], categories: Mapping[str, Category]) -> str | None:
    """Why there is no radar of these cards; None where there is one."""
    axes = spokes(cards, categories)
    most = max((len(set(axes) & measured(card).keys()) for card in cards), default=0)
    if most < LEAST:
        return f"A radar needs {LEAST} categories with enough tasks to say something; here {most} have them."
    if len(axes) > MOST:
        return f"A radar of {len(axes)} categories could not be read; the plot of intervals shows them."
    return None


def radar(cards: Sequence[Scorecard], categories: Mapping[str, Category]) -> Canvas:
    """One card or two, each with the band of its intervals. Needs `why_not` to be None."""
    axes = spokes(cards, categories)
    canvas = Canvas(_WIDTH, _HEIGHT)
    angles = [2 * math.pi * place / len(axes) for place in range(len(axes))]
    points = [measured(card) for card in cards]
    for share in (0.25, 0.5, 0.75, 1):
        ring = [_at(angle, share) for angle in angles]
        canvas.line([*ring, ring[0]], GRID)
    rows = [{row.key: row for row in card.rows} for card in cards]
    labels = {row.key: row.label for card in cards for row in card.rows}
    for key, angle in zip(axes, angles, strict=True):
        there = any(key in found for found in points)
        canvas.line([_CENTRE, _at(angle, 1)], GRID, dashed=not there)
        label = categories[key].label if key in categories else labels[key]
        _label(canvas, angle, label, _n([row.get(key) for row in rows]), there)
    for place, found in enumerate(points):
        _run(canvas, place, [(angle, found.get(key)) for key, angle in zip(axes, angles, strict=True)])
    for share in (0.5, 1):
        canvas.text((_CENTRE[0] + 4, _at(0, share)[1] + 8), f"{share:.0%}", MUTED, size=10)
    return canvas


def _run(canvas: Canvas, place: int, points: Sequence[tuple[float, Row | None]]) -> None:
    """The line is broken, and the band with it, wherever a point is missing."""
    for (angle, row), (other_angle, other) in zip(points, [*points[1:], points[0]], strict=True):
        if row and other and row.interval and other.interval and row.rate is not None and other.rate is not None:
            (low, high), (other_low, other_high) = row.interval, other.interval
            band = [_at(angle, low), _at(angle, high), _at(other_angle, other_high), _at(other_angle, other_low)]
            canvas.area(band, RUNS[place], 0.16)
            canvas.line([_at(angle, row.rate), _at(other_angle, other.rate)], RUNS[place], 2, dashed=place == 1)
    for angle, row in points:
        if row and row.interval and row.rate is not None:
            canvas.line([_at(angle, end) for end in row.interval], RUNS[place], 1)
            canvas.dot(_at(angle, row.rate), RUNS[place], shape=_SHAPES[place])


def _label(canvas: Canvas, angle: float, label: str, n: str, there: bool) -> None:
    lines = [fits(line, 15) for line in textwrap.wrap(label, 15)[:2]] or ["?"]
    x, y = _at(angle, 1 + 16 / _RADIUS)
    side = math.sin(angle)
    anchor: Anchor = "center" if abs(side) < 0.2 else "left" if side > 0 else "right"
    height = 13 * len(lines)
    top = y - height / 2 - math.cos(angle) * height / 2
    for place, line in enumerate(lines):
        canvas.text((x, top + 13 * place), line, INK if there else MUTED, size=11.5, anchor=anchor)
    canvas.text((x, top + height), n, MUTED, size=10, anchor=anchor)


def _n(rows: Sequence[Row | None]) -> str:
    if all(row is None for row in rows):
        return "not run"
    few = ", few" if all(row is None or row.few for row in rows) else ""
    return "n=" + " / ".join("0" if row is None else str(row.n) for row in rows) + few


def _at(angle: float, share: float) -> Point:
    return _CENTRE[0] + math.sin(angle) * share * _RADIUS, _CENTRE[1] - math.cos(angle) * share * _RADIUS
