"""Standard output that costs a job nothing: whoever read it may leave, and the disk behind it may fill."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO


class SteadyStream:
    """A text stream that, once it cannot be written, says nothing more and never fails. None is one that was closed."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream or Path(os.devnull).open("w")  # noqa: SIM115 – for as long as the process lives

    def write(self, text: str) -> int:
        """Write, or give the stream up."""
        try:
            return self._stream.write(text)
        except OSError:
            self._give_up()
            return len(text)

    def flush(self) -> None:
        """Flush, or give the stream up."""
        try:
            self._stream.flush()
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        # What is still buffered needs somewhere to go, or the interpreter complains at its end.
        with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
