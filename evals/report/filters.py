"""The templates' environment: everything is escaped, and what comes from outside is made inert besides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.difference import points
from evals.report.inert import inert
from harness.cli.text import duration, percent, plain

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).with_name("templates")


def environment(*more: Path) -> Environment:
    """With the filters that the templates use; `more` are folders of further templates."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    found = Environment(
        loader=FileSystemLoader([TEMPLATES, *more]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "inert": inert,
        "line": line,
        "words": lambda name: name.replace("_", " "),
        "percent": percent,
        "points": lambda value: points(value, sign=True),
        "duration": duration,
        "short": short,
        "count_or_unknown": lambda value: "unknown" if value is None else f"{value:,}",
    }
    found.filters.update(filters)
    return found


def line(text: str, limit: int = 200) -> str:
    """One line of at most `limit` characters, every control character in it visible. Not yet escaped."""
    return plain(text if len(text) <= limit else text[: limit - 1] + "…")


def short(value: float | None) -> str:
    """A number of a table, in as many digits as say something."""
    if value is None:
        return "n/a"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:,.2f}"
