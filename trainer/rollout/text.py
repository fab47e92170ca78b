"""The text of an answer while it is still being sampled: what can be shown, and whether it reached a stop."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.rollout.dialect import Dialect

_WINDOW = 16
"""A character is at most a few tokens; what is none after so many is no character."""
_BROKEN = "\ufffd"


class Text:
    """Grows token by token. What may yet turn out to begin one of `stops`, or the marker of calls, is held back."""

    def __init__(self, dialect: Dialect, stops: Sequence[str], *, marker: str | None) -> None:
        self._dialect, self._stops = dialect, stops
        self._marks = [*stops, *([marker] if marker else [])]
        self._marker = marker
        self._ids: list[int] = []
        self._begin = self._done = 0
        self.shown = 0
        """Characters that were shown."""
        self.said = ""
        """Everything so far; up to the stop, once there was one."""
        self.stopped = False

    def add(self, token: int) -> bool:
        """Take a token; whether a stop was reached."""
        self._ids.append(token)
        self._decode(final=False)
        return self.stopped

    def end(self) -> None:
        """There is no more to come."""
        self._decode(final=True)

    def show(self, *, final: bool = False) -> str:
        """What was not shown before. Calls are never shown: they are told apart once the answer is whole."""
        end = len(self.said)
        if self._marker and (place := self.said.find(self._marker)) >= 0:
            end = place
        elif not (final or self.stopped):
            longest = max((len(mark) for mark in self._marks), default=1) - 1
            for begin in range(max(self.shown, end - longest), end):
                if any(mark.startswith(self.said[begin:]) for mark in self._marks):
                    end = begin
                    break
        new = self.said[self.shown : end]
        self.shown = max(self.shown, end)
        return new

    def _decode(self, *, final: bool) -> None:
        if self.stopped:
            return
        before = self._dialect.decode(self._ids[self._begin : self._done])
        now = self._dialect.decode(self._ids[self._begin :])
        if now.endswith(_BROKEN) and not final and len(self._ids) - self._done < _WINDOW:
            return
        old, said = len(self.said), self.said + now[len(before) :]
        self._begin, self._done = self._done, len(self._ids)
        places = [place for stop in self._stops if (place := said.find(stop, max(0, old - len(stop)))) >= 0]
        # At once, for another thread may be showing it.
        self.said, self.stopped = (said[: min(places)], True) if places else (said, False)
