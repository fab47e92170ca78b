"""Starting a program of the host with chosen descriptors and nothing else of ours."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from functools import cache

CLEAN_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
"""All that a command inherits. Variables of the caller come through the script, never through argv or this."""


def spawn(argv: list[str], *descriptors: int) -> int:
    """Start `argv` in a session of its own, with `descriptors` as its 0, 1, 2, ... and no other. Returns its pid."""
    places = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(descriptors)]
    closed = [(os.POSIX_SPAWN_CLOSE, fd) for fd in _inherited() if fd >= len(descriptors)]
    return os.posix_spawn(
        argv[0],
        argv,
        CLEAN_ENV,
        file_actions=[*places, *closed],
        setsid=True,
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT),
    )


@cache
def _inherited() -> tuple[int, ...]:
    """Descriptors that this process was itself given and that children would inherit; Python's own are not."""
    found = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names, not paths
        with suppress(OSError):
            if os.get_inheritable(int(name)):
                found.append(int(name))
    return tuple(found)
