"""Curves and bands over a run's steps, as SVG that follows the page's colours and holds no style of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from markupsafe import Markup, escape

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 520, 190, 62, 12, 24
_RIGHT = _WIDTH - 10
_FLOOR = _HEIGHT - _BOTTOM
_BUCKETS = 240


def chart(series: Sequence[tuple[str, Points]], last: float, description: str, marks: Sequence[float] = ()) -> Markup:
    """One or two curves over steps 1 to `last`; `marks` are steps at which something was changed."""
    values = [value for _, points in series for _, value in points]
    low, high = min(values), max(values)
    ticks = list(nice_ticks(low, high))
    low, high = min(low, ticks[0]), max(high, ticks[-1])

    def across(step: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (step - 1) / max(1.0, last - 1)

    def up(value: float) -> float:
        return _FLOOR - (_FLOOR - _TOP) * (value - low) / ((high - low) or 1.0)

    drawn = [_frame(description, _HEIGHT)]
    for tick in ticks:
        drawn.append(f'<path class="grid" d="M{_LEFT} {up(tick):.1f}H{_RIGHT}"/>')
        drawn.append(f'<text class="tick end" x="{_LEFT - 7}" y="{up(tick) + 4:.1f}">{_number(tick)}</text>')
    for step in dict.fromkeys((1.0, float(round((1 + last) / 2)), float(last))):
        side = "start" if step == 1 else "end" if step == last else "middle"
        drawn.append(f'<text class="tick {side}" x="{across(step):.1f}" y="{_HEIGHT - 6}">{step:g}</text>')
    drawn += [f'<path class="mark" d="M{across(step):.1f} {_TOP}V{_FLOOR}"/>' for step in marks]
    for number, (_, points) in enumerate(series):
        path = " ".join(f"{across(step):.1f},{up(value):.1f}" for step, value in thinned(points))
        drawn.append(f'<polyline class="curve c{number}" points="{path}"/>')
        if len(points) == 1:
            drawn.append(
                f'<circle class="dot c{number}" cx="{across(points[0][0]):.1f}" cy="{up(points[0][1]):.1f}" r="3"/>'
            )
    return Markup("".join(drawn) + "</svg>")  # noqa: S704 - numbers and escaped text


def band(spans: Sequence[tuple[float, float, str]], last: float, description: str) -> Markup:
    """Levels over steps: from, to, and the level, which is the rectangle's class."""
    drawn = [_frame(description, 18)]
    width = _WIDTH / max(1.0, last)
    drawn += [
        f'<rect class="level {escape(level)}" x="{(begin - 1) * width:.1f}" width="{(end - begin) * width:.1f}" '
        'y="0" height="18"/>'
        for begin, end, level in spans
    ]
    return Markup("".join(drawn) + "</svg>")  # noqa: S704 - numbers and escaped text


def nice_ticks(low: float, high: float) -> Iterator[float]:
    """Three to five round numbers that span the values, or nearly."""
    largest = max(abs(low), abs(high))
    span = high - low
    if span <= 1e-9 * largest or span < 1e-300:  # flat, or as good as that
        span = largest if largest > 1e-300 else 1.0
        high = low = (low + high) / 2
    rough = span / 3
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    for number in range(math.floor(low / step), math.ceil(high / step) + (low == high) + 1):
        yield number * step


def thinned(points: Points) -> list[tuple[float, float]]:
    """At most some hundred points that still show every spike: of many neighbours, the smallest and the largest."""
    if len(points) <= 2 * _BUCKETS:
        return list(points)
    found: list[tuple[float, float]] = []
    for number in range(_BUCKETS):
        part = points[len(points) * number // _BUCKETS : len(points) * (number + 1) // _BUCKETS]
        ends = {min(part, key=lambda each: each[1]), max(part, key=lambda each: each[1])}
        found += sorted(ends)
    return found


def _frame(description: str, height: int) -> str:
    return f'<svg class="figure" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(description)}">'


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"
