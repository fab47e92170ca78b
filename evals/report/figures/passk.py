"""What several attempts tell: pass@k, that one of k succeeds, and pass^k, that all of them do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evals.report.figures.canvas import Canvas, Point
from evals.report.figures.colours import GRID, INK, MUTED, RUNS
from evals.run import Run
from evals.stats.intervals import t_interval
from evals.stats.passk import Estimator, OverTasks, pass_at_k, pass_hat_k
from harness.job.interval import wilson

_WIDTH, _HEIGHT = 480.0, 320.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 404.0, 14.0, 264.0


@dataclass(frozen=True, slots=True)
class Curve:
    """One estimator over k for one run, and the tasks' counts (attempts, successes) that it is of."""

    estimator: Estimator
    values: Mapping[int, OverTasks]
    counts: Sequence[tuple[int, int]]


def curves_of(run: Run, at: Mapping[int, OverTasks], hat: Mapping[int, OverTasks]) -> tuple[Curve, Curve]:
    """The two curves of a run."""
    counts = [(task.counted, task.passed) for task in run.tasks.values() if task.counted]
    return Curve(pass_at_k, at, counts), Curve(pass_hat_k, hat, counts)


def passk(runs: Sequence[tuple[Curve, Curve]]) -> Canvas:
    """One run or two; the bands are 95% intervals, Student's t over tasks."""
    canvas = Canvas(_WIDTH, _HEIGHT)
    ks = sorted({k for run in runs for curve in run for k in curve.values})
    for tick in (0, 0.25, 0.5, 0.75, 1):
        canvas.line([(_LEFT, _y(tick)), (_RIGHT, _y(tick))], GRID)
        canvas.text((_LEFT - 8, _y(tick)), f"{tick:.0%}", MUTED, size=11, anchor="right")

    def x(k: int) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (k - ks[0]) / (ks[-1] - ks[0])

    for k in ks:
        canvas.text((x(k), _BOTTOM + 16), str(k), MUTED, size=11, anchor="center")
    canvas.text(((_LEFT + _RIGHT) / 2, _BOTTOM + 38), "k attempts", MUTED, size=11, anchor="center")
    ends: list[tuple[float, str]] = []
    for place, run in enumerate(runs):
        name = f" {'AB'[place]}" if len(runs) > 1 else ""
        for curve, word in zip(run, ("pass@k", "pass^k"), strict=True):
            hat = word == "pass^k"
            known = [(k, value.value) for k, value in curve.values.items() if value.value is not None]
            points = [(x(k), _y(value)) for k, value in known]
            if not points:
                continue
            canvas.area(_band(curve, [k for k, _ in known], x), RUNS[place], 0.13)
            canvas.line(points, RUNS[place], 2, dashed=hat)
            for point in points:
                canvas.dot(point, RUNS[place], shape="square" if hat else "disc", size=8)
            ends.append((points[-1][1], word + name))
    for y, word in _apart(ends):
        canvas.text((_RIGHT + 10, y), word, INK, size=11.5)
    return canvas


def _band(curve: Curve, ks: Sequence[int], x: Callable[[int], float]) -> list[Point]:
    low, high = [], []
    for k in ks:
        estimates = [curve.estimator(n, c, k) for n, c in curve.counts]
        known = [value for value in estimates if value is not None]
        # Where no task differs from another the spread is unknown: then, as for a rate, Wilson's of so many tasks.
        varied = t_interval(known) if len(set(known)) > 1 else None
        bounds = varied or wilson(sum(known), len(known)) or (0.0, 1.0)
        low.append((x(k), _y(max(0.0, bounds[0]))))
        high.append((x(k), _y(min(1.0, bounds[1]))))
    return [*high, *reversed(low)]


def _apart(ends: Sequence[tuple[float, str]], least: float = 14) -> list[tuple[float, str]]:
    """Labels in order, none closer to the one above than a line's height."""
    placed: list[tuple[float, str]] = []
    for y, word in sorted(ends):
        placed.append((max(y, placed[-1][0] + least) if placed else y, word))
    return placed


def _y(share: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * share
