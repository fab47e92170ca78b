"""The colours of figures by what they mean. A PNG shows them as they are; in a page, style sheets decide."""

from __future__ import annotations

INK = "#1b1f24"
MUTED = "#59616b"
GRID = "#d0d5db"
PAPER = "#ffffff"
FIRST = "#0072b2"
SECOND = "#d55e00"

ROLES = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper", FIRST: "first", SECOND: "second"}
"""The class that stands for a colour in a page."""

RUNS = (FIRST, SECOND)
"""Of the first run and the second: blue and vermilion of Okabe and Ito, which all eyes tell apart."""
