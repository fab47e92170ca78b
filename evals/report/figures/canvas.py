"""A sheet of pixels with its origin at the top left, on which figures are drawn. Owns all that is matplotlib's.

Text is literal (no formulas), nothing is clipped and nothing refers to anything by an id, so that several figures can
stand in one page; and the same strokes give the same bytes.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from evals.report.figures.colours import INK, PAPER
from evals.report.figures.svg import inline
from harness.cli.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

Point = tuple[float, float]
Shape = Literal["disc", "square"]
Anchor = Literal["left", "center", "right"]

_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "harness",
    "font.family": "DejaVu Sans",
    "path.simplify": False,
}
_DPI = 72
_PNG_DPI = 144


class Canvas:
    """A figure of `width` x `height` pixels."""

    def __init__(self, width: float, height: float) -> None:
        from matplotlib.figure import Figure

        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        self.width, self.height = width, height
        with _quiet():
            self._figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI)
            self._axes: Any = self._figure.add_axes((0, 0, 1, 1))
        self._axes.set_axis_off()
        self._axes.set_xlim(0, width)
        self._axes.set_ylim(height, 0)

    def line(self, points: Sequence[Point], colour: str, width: float = 1, *, dashed: bool = False) -> None:
        """A polyline."""
        self._axes.plot(
            *zip(*points, strict=True),
            color=colour,
            linewidth=width,
            linestyle=(0, (4, 3)) if dashed else "-",
            solid_capstyle="butt",
            clip_on=False,
            scalex=False,
            scaley=False,
        )

    def area(self, points: Sequence[Point], colour: str, alpha: float) -> None:
        """A filled polygon without an outline."""
        from matplotlib.patches import Polygon

        self._axes.add_patch(Polygon(points, facecolor=colour, edgecolor="none", alpha=alpha, clip_on=False))

    def dot(self, at: Point, colour: str, *, shape: Shape = "disc", hollow: bool = False, size: float = 9) -> None:
        """A mark of `size` pixels."""
        from matplotlib.patches import Circle, Rectangle

        look: dict[str, Any] = {
            "facecolor": PAPER if hollow else colour,
            "edgecolor": colour if hollow else PAPER,
            "clip_on": False,
        }
        half, width = size / 2, 2.0 if hollow else 1.5
        patch = (
            Circle(at, half, linewidth=width, **look)
            if shape == "disc"
            else Rectangle((at[0] - half + 0.5, at[1] - half + 0.5), size - 1, size - 1, linewidth=width, **look)
        )
        patch.set_zorder(5)
        self._axes.add_patch(patch)

    def text(
        self,
        at: Point,
        text: str,
        colour: str = INK,
        *,
        size: float = 12,
        anchor: Anchor = "left",
        bold: bool = False,
    ) -> None:
        """One line of literal text, its middle at the height of `at`."""
        self._axes.text(
            *at,
            plain(text),
            color=colour,
            fontsize=size,
            ha=anchor,
            va="center_baseline",
            fontweight="bold" if bold else "normal",
            clip_on=False,
            zorder=6,
            parse_math=False,
        )

    def svg(self, description: str) -> str:
        """The figure as an element of a page; `description` is what a screen reader says."""
        return inline(self._written("svg", _DPI).decode(), description)

    def png(self) -> bytes:
        """The figure as an image, in twice as many pixels."""
        return self._written("png", _PNG_DPI)

    def _written(self, kind: str, dpi: int) -> bytes:
        file = io.BytesIO()
        metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        with _quiet():
            self._figure.savefig(
                file, format=kind, dpi=dpi, metadata=metadata, facecolor="none" if kind == "svg" else PAPER
            )
        return file.getvalue()


@contextmanager
def _quiet() -> Iterator[None]:
    """matplotlib with our settings; that its own font lacks a character of some label is nobody's concern."""
    import matplotlib

    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def fits(text: str, characters: int) -> str:
    """`text`, shortened to so many characters."""
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"
