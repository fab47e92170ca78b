"""The first process of a sandbox's namespace: started, held, and killed with everything in it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from backends.errors import SandboxError, SandboxStartError
from backends.local.spawn import spawn
from backends.local.waiting import readable, ready

_INFO_FD = 3
_MESSAGE_BYTES = 4096
_POLL_SEC = 0.002
_END_SEC = 10.0


class Init:
    """Pid 1 of a namespace. It ends when the write end of `lifeline` closes, so at the latest with this process."""

    def __init__(self, pid: int, *, starter: int, lifeline: int) -> None:
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self._starter = starter
        self._lifeline = lifeline
        self._killed = False

    def alive(self) -> bool:
        """Whether the namespace still runs."""
        return not self._killed and not ready(self.pidfd, 0)

    async def kill(self) -> None:
        """Kill the namespace and wait until everything in it is gone. Idempotent.

        It is gone only when all that died in it are reaped; commands are by whoever awaits them, on this event loop.
        Raises SandboxError if it is not within _END_SEC; nobody waits for it any more then.
        """
        if self._killed:
            return
        self._killed = True
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        try:
            async with asyncio.timeout(_END_SEC):
                while os.waitpid(self._starter, os.WNOHANG) == (0, 0):  # noqa: ASYNC110, ASYNC222 - it does not block
                    await asyncio.sleep(_POLL_SEC)
        except TimeoutError:
            os.kill(self._starter, signal.SIGKILL)
            os.waitpid(self._starter, 0)  # noqa: ASYNC222 - it was killed
            raise SandboxError(
                f"a killed namespace has not ended within {_END_SEC:g} s", backend="local", operation="stop"
            ) from None
        finally:
            os.close(self.pidfd)
            os.close(self._lifeline)


async def start_init(argv_for: Callable[[int], list[str]]) -> Init:
    """Start a namespace and wait for its pid 1 to say that it is ready.

    `argv_for` gives the command for the number of the descriptor on which the pid may be told. Raises
    SandboxStartError with what the tools wrote.
    """
    pipes = [os.pipe() for _ in range(4)]
    (stdin, lifeline), (greeting, stdout), (errors, stderr), (info, info_write) = pipes
    argv = argv_for(_INFO_FD)
    starter = -1
    try:
        try:
            starter = spawn(argv, stdin, stdout, stderr, info_write)
        finally:
            for fd in (stdin, stdout, stderr, info_write):
                os.close(fd)
        with readable(greeting) as greeted:
            await greeted
        if os.read(greeting, 16) != b"ready\n":
            raise SandboxStartError(_message(errors), backend="local", operation="start")
        return Init(_pid_of_init(starter, info), starter=starter, lifeline=lifeline)
    except BaseException:
        if starter >= 0:
            _kill_with_children(starter)
        os.close(lifeline)
        raise
    finally:
        for fd in (greeting, errors, info):
            os.close(fd)


def _kill_with_children(starter: int) -> None:
    """Kill what starts a namespace, at any moment of that, and reap it.

    Its child is killed by name, since at first neither the starter's end nor the lifeline's would end it: it waits for
    the starter to tell it its users. What is stopped makes no further child, and keeps the pids of those it has.
    """
    os.kill(starter, signal.SIGSTOP)
    _, status = os.waitpid(starter, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        return  # it had ended by itself, with nobody to wait for
    for child in Path(f"/proc/{starter}/task/{starter}/children").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)
    os.kill(starter, signal.SIGKILL)
    os.waitpid(starter, 0)


def _pid_of_init(starter: int, info: int) -> int:
    """What bubblewrap tells; or, from unshare, its one child."""
    os.set_blocking(info, False)
    with suppress(BlockingIOError):
        told = os.read(info, _MESSAGE_BYTES)
        if told:
            return int(json.loads(told)["child-pid"])
    return int(Path(f"/proc/{starter}/task/{starter}/children").read_text().split()[0])


def _message(errors: int) -> str:
    os.set_blocking(errors, False)
    text = ""
    with suppress(BlockingIOError):
        text = os.read(errors, _MESSAGE_BYTES).decode("utf-8", "replace").strip().replace("\n", "; ")
    return f"a namespace could not be started: {text or 'no reason given'}"
