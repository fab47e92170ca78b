"""Notices that a run goes round in a circle of one turn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any


class Repetition:
    """Counts turns in a row with the same calls and the same results; `limit` None never complains."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._last = b""
        self._count = 0

    def of(self, turn: Sequence[tuple[str, dict[str, Any], str]]) -> int | None:
        """Take one turn's (name, arguments, result)s; how often it came in a row, once that reaches the limit."""
        digest = hashlib.sha256(json.dumps(turn, sort_keys=True).encode()).digest()
        self._count = self._count + 1 if digest == self._last else 1
        self._last = digest
        return self._count if self._limit is not None and self._count >= self._limit else None
