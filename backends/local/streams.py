"""The read ends of a command's pipes: drained at once, capped, and read on for those who outlive the command."""

from __future__ import annotations

import asyncio
import os

_CHUNK = 1 << 16
_DISCARD_INTERVAL_SEC = 0.02


class Stream:
    """The read end of a command's pipe: keeps the first bytes, counts them all."""

    def __init__(self, limit: int) -> None:
        self.kept = bytearray()
        self.size = 0
        self.open = True
        self._limit = limit + 4  # so that the cut sees whether it splits a character
        self.fd, self.write_end = os.pipe()
        os.set_blocking(self.fd, False)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        os.close(self.write_end)
        self.write_end = -1
        loop.add_reader(self.fd, self.receive)

    def receive(self) -> bool:
        """Take what one read gives; whether there may be more at once."""
        try:
            data = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self.size += len(data)
        if len(self.kept) < self._limit:
            self.kept += data[: self._limit - len(self.kept)]
        return True

    def close(self) -> None:
        if self.open:
            self.open = False
            asyncio.get_running_loop().remove_reader(self.fd)
            os.close(self.fd)
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1


class Leftovers:
    """Pipes that a command's background children still hold: read on, slowly, so that they neither block nor die."""

    def __init__(self) -> None:
        self._streams: set[Stream] = set()
        self._timer: asyncio.TimerHandle | None = None

    def take(self, stream: Stream) -> None:
        """Read what a command that has ended left in the pipe, and keep the pipe if somebody else still holds it."""
        if stream.write_end >= 0:
            stream.close()
            return
        # What the command wrote is in the pipe by now; a child that floods it on must not hold the call.
        for _ in range(32):
            if not stream.open or not stream.receive():
                break
        if stream.open:
            loop = asyncio.get_running_loop()
            loop.remove_reader(stream.fd)
            self._streams.add(stream)
            if self._timer is None:
                self._timer = loop.call_later(_DISCARD_INTERVAL_SEC, self._discard)

    def _discard(self) -> None:
        for stream in list(self._streams):
            stream.receive()
            if not stream.open:
                self._streams.discard(stream)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_DISCARD_INTERVAL_SEC, self._discard) if self._streams else None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._streams:
            self._streams.pop().close()
