"""Knowing a command's processes wherever they go, and killing them.

Every process that a command starts inherits the command's tag, written into RLIMIT_RTTIME, a limit that only
real-time scheduling ever meets. A new session, a double fork or an empty environment do not shed it.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_SWEEPS = 6
_MAX_WAITED = 128
_DEATH_SEC = 1.0
_BOMB = 200
"""Processes of one command beyond which sweeping gives up: it may be forking faster than it is found."""


def kill_tagged(first: int, end: int) -> bool:
    """Kill every process whose tag is in [first, end); whether all are gone. Blocks for milliseconds."""
    for _ in range(_SWEEPS):
        found = _sweep(first, end)
        if found == 0:
            return True
        if found > _BOMB:
            break
    return False


def _sweep(first: int, end: int) -> int:
    """Kill what is found in one pass over the processes, wait for its end, and return how many they were."""
    waiting = select.poll()
    victims: set[int] = set()
    found = 0
    for pidfd in _tagged(first, end):
        found += 1
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        if len(victims) < _MAX_WAITED:
            waiting.register(pidfd, select.POLLIN)
            victims.add(pidfd)
        else:
            os.close(pidfd)
    patience = time.monotonic() + (_DEATH_SEC if found <= _BOMB else 0)
    while victims and (wait := patience - time.monotonic()) > 0:
        for pidfd, _event in waiting.poll(wait * 1000):
            waiting.unregister(pidfd)
            victims.discard(pidfd)
            os.close(pidfd)
    for pidfd in victims:
        os.close(pidfd)
    return found


def _tagged(first: int, end: int) -> Iterator[int]:
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            if first <= _tag_of(entry.name) < end:
                pidfd = os.pidfd_open(int(entry.name))
                # The pid may have passed to another process in between: what counts is what the descriptor holds.
                if first <= _tag_of(entry.name) < end and not _is_zombie(entry.name):
                    yield pidfd
                else:
                    os.close(pidfd)


def _tag_of(pid: str) -> int:
    text = Path(f"/proc/{pid}/limits").read_bytes()
    value = text[text.index(b"Max realtime timeout") + 20 :].split(None, 1)[0]
    return int(value) if value.isdigit() else -1


def _is_zombie(pid: str) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_bytes()
    return stat[stat.rindex(b")") + 2 : stat.rindex(b")") + 3] in (b"Z", b"X")
