"""What the agent is told, without the markers that keep benchmarks out of training data."""

from __future__ import annotations

import re

CANARY = re.compile(r"\s*(<!--.*canary.*-->|#.*canary.*)\s*", re.IGNORECASE)


def strip_canary(text: str) -> str:
    """The instruction without leading canary lines and the blank lines after them."""
    lines = text.splitlines(keepends=True)
    start = 0
    while start < len(lines) and CANARY.fullmatch(lines[start]):
        start += 1
    while start and start < len(lines) and not lines[start].strip():
        start += 1
    return "".join(lines[start:])
