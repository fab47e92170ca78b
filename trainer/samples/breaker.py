"""How many groups may be thrown away before something is wrong.

Dropping what infrastructure broke is right while it is rare. When half of everything is dropped, what is left is no
longer what was meant to be sampled, and training has to stop rather than go on with the rest.
"""

from __future__ import annotations

from collections import deque
from typing import Any


class CumulativeBreaker:
    """The published rule (ROLL, arXiv 2512.24873): drop a bad group as long as at most half of all groups were dropped.

    A bad group that it keeps is still masked. The counts are never reset, so that a long good past lets much through.
    """

    def __init__(self, limit: float = 0.5) -> None:
        self._limit = limit
        self.total = self.dropped = 0

    def drops(self, bad: bool) -> bool:
        """Count a group; whether it is dropped."""
        self.total += 1
        if not bad or (self.dropped + 1) / self.total > self._limit:
            return False
        self.dropped += 1
        return True

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"total": self.total, "dropped": self.dropped}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a checkpoint's state."""
        self.total, self.dropped = state["total"], state["dropped"]


class WindowBreaker:
    """This project's default: drop every bad group, and open when more than `limit` of the last `window` were bad.

    It judges only once `minimum` groups were seen. Once open it stays open: `reason` then says why.
    """

    def __init__(self, limit: float = 0.5, *, window: int = 64, minimum: int = 16) -> None:
        self._limit = limit
        self._minimum = minimum
        self._recent: deque[bool] = deque(maxlen=window)
        self.reason: str | None = None

    def drops(self, bad: bool) -> bool:
        """Count a group; whether it is dropped."""
        self._recent.append(bad)
        broken, seen = sum(self._recent), len(self._recent)
        if self.reason is None and seen >= self._minimum and broken > self._limit * seen:
            self.reason = (
                f"{broken} of the last {seen} groups were broken by infrastructure, more than {self._limit:.0%}: "
                "what is left is not what was meant to be sampled"
            )
        return bad

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"recent": list(self._recent), "reason": self.reason}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a checkpoint's state."""
        self._recent.clear()
        self._recent.extend(state["recent"])
        self.reason = state["reason"]
