"""Trouble on demand, for every loopback control plane."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Fault:
    """What goes wrong with the next `times` calls whose name fits `call`, a regular expression.

    Attributes:
        status, headers, body: an answer in place of the real one; without `body`, an error as this plane words it.
        delay: seconds to wait before anything else.
        hang: never answer.
        reset: break the connection, without an answer; with `work`, after the work has been done.
        cut: break the connection in the middle of the answer, where it is a stream.
        kill: end the sandbox in the middle of the answer.
        share: of the calls that fit, by chance; 1 means all.
    """

    call: str
    times: float = 1
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    delay: float = 0.0
    hang: bool = False
    reset: bool = False
    work: bool = False
    cut: bool = False
    kill: bool = False
    share: float = 1.0
    met: int = 0


class Faults:
    """Those that are still to come, in order. `seed` draws where a fault has a share."""

    def __init__(self, seed: int = 0) -> None:
        self._waiting: list[Fault] = []
        self._random = random.Random(seed)

    def add(self, call: str, **what: object) -> Fault:
        fault = Fault(call, **what)  # type: ignore[arg-type]
        self._waiting.append(fault)
        return fault

    def seed(self, seed: int) -> None:
        """Draw anew, from here."""
        self._random.seed(seed)

    def clear(self) -> None:
        self._waiting.clear()

    def take(self, call: str) -> Fault | None:
        """The fault that this call meets, if any."""
        for fault in self._waiting:
            if fault.met < fault.times and re.search(fault.call, call) and self._random.random() < fault.share:
                fault.met += 1
                return fault
        return None


async def wait(fault: Fault | None) -> None:
    """Serve the part of a fault that is waiting."""
    if fault is not None and fault.delay:
        await asyncio.sleep(fault.delay)
    if fault is not None and fault.hang:
        await asyncio.Event().wait()
