"""The forest plot: a line per group with its rate, its interval and its n, of one run or of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evals.report.figures.canvas import Anchor, Canvas, Shape, fits
from evals.report.figures.colours import GRID, INK, MUTED, RUNS
from evals.scorecard import Row, Scorecard
from harness.cli.text import percent

WIDTH = 480
MOST_ROWS = 24
_LEFT, _RIGHT = 10.0, WIDTH - 10.0
_SHAPES: tuple[Shape, Shape] = ("disc", "square")


def forest(cards: Sequence[Scorecard]) -> Canvas:
    """Groups in the order of the first card, what only the second has after them, and all together at the end."""
    labels = {row.key: row.label for card in cards for row in card.rows}
    rows: list[Mapping[str, Row]] = [{row.key: row for row in card.rows} for card in cards]
    shown = list(labels)[:MOST_ROWS]
    step = 26 + 13 * len(cards)
    canvas = Canvas(WIDTH, 22 + step * (len(shown) + 1) + 38)
    bottom = 22 + step * (len(shown) + 1)
    for tick in (0, 0.25, 0.5, 0.75, 1):
        canvas.line([(_x(tick), bottom - 4), (_x(tick), bottom + 2)], MUTED)
        anchor: Anchor = "left" if tick == 0 else "right" if tick == 1 else "center"
        canvas.text((_x(tick), bottom + 12), f"{tick:.0%}", MUTED, size=11, anchor=anchor)
    axis = "success rate, with 95% interval" + ("; A: blue disc, B: orange square" if len(cards) > 1 else "")
    canvas.text((WIDTH / 2, bottom + 28), axis, MUTED, size=11, anchor="center")
    for place, key in enumerate(shown):
        _group(canvas, 22 + step * place, labels[key], [row.get(key) for row in rows])
    top = 30 + step * len(shown)
    canvas.line([(_LEFT, top - 15), (_RIGHT, top - 15)], MUTED)
    _group(canvas, top, "All", [card.all for card in cards], bold=True)
    return canvas


def _group(canvas: Canvas, top: float, label: str, rows: Sequence[Row | None], *, bold: bool = False) -> None:
    canvas.text((_LEFT, top), fits(label, 30 if len(rows) == 1 else 25), INK, size=13, bold=bold)
    facts = [_facts(row, short=len(rows) > 1) for row in rows]
    words = (
        facts[0] if len(facts) == 1 else " · ".join(f"{name} {fact}" for name, fact in zip("AB", facts, strict=True))
    )
    canvas.text((_RIGHT, top), words, MUTED, size=11.5, anchor="right")
    for place, row in enumerate(rows):
        y = top + 15 + 13 * place
        canvas.line([(_LEFT, y), (_RIGHT, y)], GRID)
        for tick in (0, 0.25, 0.5, 0.75, 1):
            canvas.line([(_x(tick), y - 3), (_x(tick), y + 3)], GRID)
        if row is None or row.rate is None or row.interval is None:
            continue
        low, high = row.interval
        canvas.line([(_x(low), y), (_x(high), y)], RUNS[place], 3.5)
        for end in (low, high):
            canvas.line([(_x(end), y - 4), (_x(end), y + 4)], RUNS[place], 1.5)
        canvas.dot((_x(row.rate), y), RUNS[place], shape=_SHAPES[place], hollow=row.few, size=11)


def _facts(row: Row | None, *, short: bool) -> str:
    if row is None:
        return "not run"
    if row.rate is None:
        return f"incomplete, n={row.n}"
    few = " (few)" if row.few else ""
    return f"{percent(row.rate)}, " + (f"n={row.n}{few}" if short else f"{row.successes} of {row.n}{few}")


def _x(share: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * share
