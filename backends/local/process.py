"""Running one command from outside its sandbox: pipes drained at once and capped, the whole tree killed on time."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from backends.local.entry import ANSWER_SEC, DOORMAN, Entry, NotStarted, answered, told
from backends.local.spawn import CLEAN_ENV
from backends.local.streams import Leftovers, Stream
from backends.local.tags import kill_tagged
from backends.local.waiting import readable, ready
from backends.spec import ExecuteResponse, cut_utf8

_REAP_SEC = 0.02
_ATTEMPTS = 25

# The shell's first act moves the offset of the descriptor that we share with it, which proves that it started.
_HEAD = b"\nread -r _ <&3; exec 3<&-; umask 022; "


async def run(
    entry: Entry,
    *,
    script: bytes,
    stdin: bytes | int | None,
    stdout: int | None = None,
    timeout: float,
    max_output: int,
    leftovers: Leftovers,
    kill_all: Callable[[], None],
) -> ExecuteResponse:
    """Run `script` in a shell and wait for it, at most `timeout` seconds.

    `stdin` is content, a descriptor, or None for nothing; `stdout` a descriptor that takes the place of capturing.
    `kill_all` is the last resort against a command that forks faster than its processes can be found.
    Raises NotStarted if what should have become that shell gave up before, or did not begin within ANSWER_SEC. A caller
    that is cancelled is told when nothing of the command is left.
    """
    loop = asyncio.get_running_loop()
    began = time.monotonic()
    out, err = Stream(max_output), Stream(max_output)
    text = _memory_file(_HEAD + script)
    pid = pidfd = -1
    ended = timed_out = False
    try:
        source = _source(stdin)
        try:
            written = out.write_end if stdout is None else stdout
            answer = DOORMAN.ask(entry, CLEAN_ENV, source, written, err.write_end, text)
        finally:
            os.close(source)
        try:
            await told(answer)
        except asyncio.CancelledError:
            with suppress(NotStarted):
                pid = answered(answer)  # what has started has to be ended
            raise
        pid = answered(answer)
        out.start(loop)
        err.start(loop)
        pidfd = os.pidfd_open(pid)
        try:
            with readable(pidfd) as exited:
                async with asyncio.timeout(timeout):
                    await exited
            ended = True
        except TimeoutError:
            timed_out = True
    finally:
        if pidfd >= 0:
            os.close(pidfd)
        if pid >= 0:
            if not ended:
                _kill_command(pid, entry.tag, kill_all)
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


def _source(stdin: bytes | int | None) -> int:
    if isinstance(stdin, int):
        return os.dup(stdin)
    return os.open(os.devnull, os.O_RDONLY) if stdin is None else _memory_file(stdin)


def _memory_file(content: bytes) -> int:
    fd = os.memfd_create("stdin")
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _kill_command(pid: int, tag: int, kill_all: Callable[[], None]) -> None:
    """Kill a command and all that it started; `pid` is left to be reaped."""
    pidfd = os.pidfd_open(pid)
    for _ in range(_ATTEMPTS):
        # More than once, since it may be on its way in and not have its tag yet.
        if not kill_tagged(tag, tag + 1):
            kill_all()
        if ready(pidfd, _REAP_SEC):
            break
    else:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        ready(pidfd, _REAP_SEC)
        kill_tagged(tag, tag + 1)
    os.close(pidfd)


def run_blocking(entry: Entry, script: bytes, *, timeout: float) -> int | None:
    """Run `script` in a shell and wait for it, on no event loop. Its exit code; None if it was killed or too slow.

    Raises NotStarted.
    """
    text = _memory_file(_HEAD + script)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        pid = answered(DOORMAN.ask(entry, CLEAN_ENV, null, null, null, text), within=ANSWER_SEC)
    finally:
        os.close(null)
        os.close(text)
    pidfd = os.pidfd_open(pid)
    if not ready(pidfd, timeout):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else None
