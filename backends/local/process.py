"""Running one command from outside its sandbox: pipes drained at once and capped, the whole tree killed on time."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from backends.local.streams import Leftovers, Stream
from backends.local.tags import kill_tagged
from backends.spec import ExecuteResponse, cut_utf8

_REAP_SEC = 0.02
_ATTEMPTS = 25
CLEAN_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
"""All that a command inherits. Variables of the caller come through the script, never through argv or this."""


# The shell's first act moves the offset of the descriptor that we share with it, which proves that it started.
_HEAD = b"\nread -r _ <&3; exec 3<&-; umask 022; "


class NotStarted(Exception):
    """The command's shell never ran, so its exit code says nothing of the command."""


async def run(
    argv: list[str],
    *,
    tag: int,
    script: bytes,
    stdin: bytes | int | None,
    stdout: int | None = None,
    timeout: float,
    max_output: int,
    leftovers: Leftovers,
    entered: set[int],
    kill_all: Callable[[], None],
) -> ExecuteResponse:
    """Run `argv`, a shell on its descriptor 3, and wait for it, at most `timeout` seconds.

    `stdin` is content, a descriptor, or None for nothing; `stdout` a descriptor that takes the place of capturing.
    The pid that waits for the command outside of its namespace stands in `entered` meanwhile. `kill_all` is the last
    resort against a command that forks faster than its processes can be found.
    Raises NotStarted if what should have become that shell gave up before.
    """
    loop = asyncio.get_running_loop()
    began = time.monotonic()
    out, err = Stream(max_output), Stream(max_output)
    text = _memory_file(_HEAD + script)
    pid = pidfd = -1
    ended = timed_out = False
    try:
        pid = _start(argv, text, stdin, out.write_end if stdout is None else stdout, err.write_end)
        entered.add(pid)
        out.start(loop)
        err.start(loop)
        pidfd = os.pidfd_open(pid)
        exited = loop.create_future()
        loop.add_reader(pidfd, settle, exited)
        try:
            async with asyncio.timeout(timeout):
                await exited
            ended = True
        except TimeoutError:
            timed_out = True
    finally:
        if pidfd >= 0:
            loop.remove_reader(pidfd)
            os.close(pidfd)
        if pid >= 0:
            if not ended:
                _kill_command(pid, tag, kill_all)
            entered.discard(pid)
            _, status = os.waitpid(pid, 0)  # noqa: ASYNC222 - it has ended
        leftovers.take(out)
        leftovers.take(err)
        started = os.lseek(text, 0, os.SEEK_CUR) > 0
        os.close(text)
    code = os.waitstatus_to_exitcode(status)
    if not started and not timed_out and code >= 0:
        raise NotStarted(bytes(err.kept[:500]).decode("utf-8", "replace").strip() or f"exit code {code}")
    return ExecuteResponse(
        stdout=cut_utf8(bytes(out.kept), max_output),
        stderr=cut_utf8(bytes(err.kept), max_output),
        stdout_size=out.size,
        stderr_size=err.size,
        exit_code=None if timed_out else 128 - code if code < 0 else code,
        timed_out=timed_out,
        duration_sec=time.monotonic() - began,
    )


def settle(future: asyncio.Future[None]) -> None:
    """Wake who waits for `future`, once."""
    if not future.done():
        future.set_result(None)


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


def _start(argv: list[str], text: int, stdin: bytes | int | None, out: int, err: int) -> int:
    if isinstance(stdin, int):
        return spawn(argv, stdin, out, err, text)
    source = os.open(os.devnull, os.O_RDONLY) if stdin is None else _memory_file(stdin)
    try:
        return spawn(argv, source, out, err, text)
    finally:
        os.close(source)


def _memory_file(content: bytes) -> int:
    fd = os.memfd_create("stdin")
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _kill_command(pid: int, tag: int, kill_all: Callable[[], None]) -> None:
    """Kill a command that `pid` entered the namespace for: what is inside first, so that `pid` can reap its child."""
    pidfd = os.pidfd_open(pid)
    for _ in range(_ATTEMPTS):
        # More than once, since it may be on its way in and not have its tag yet.
        if not kill_tagged(tag, tag + 1, spare=pid):
            kill_all()
        if select.select([pidfd], [], [], _REAP_SEC)[0]:
            break
    else:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        select.select([pidfd], [], [])
        kill_tagged(tag, tag + 1, spare=pid)
    os.close(pidfd)


def run_blocking(argv: list[str], script: bytes, *, timeout: float) -> None:
    """Run `argv`, a shell on its descriptor 3, and wait for it, on no event loop."""
    text = _memory_file(_HEAD + script)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        pid = spawn(argv, null, null, null, text)
    finally:
        os.close(null)
        os.close(text)
    pidfd = os.pidfd_open(pid)
    ended, _, _ = select.select([pidfd], [], [], timeout)
    if not ended:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)
    os.waitpid(pid, 0)
