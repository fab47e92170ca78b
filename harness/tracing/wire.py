"""What a run and its child process say to each other: a line of JSON each, names only. Content stays on the disk.

run -> child    {"trial": "greet__1"}    {"end": 0.8}, seconds that are left
child -> run    {"sent": "greet__1"}    {"left_out": "greet__1"}, by sampling
                {"failed": "greet__1", "why": "..."}    {"unable": "..."}, before it ends
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def line(**message: Any) -> bytes:
    """A message."""
    return json.dumps(message).encode() + b"\n"


class Lines:
    """Messages out of a stream of bytes, however it is cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The messages that are complete now. What is none is skipped: the other side may be anything by then."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for each in whole:
            try:
                message = json.loads(each)
            except ValueError:
                continue
            if isinstance(message, dict):
                yield message
