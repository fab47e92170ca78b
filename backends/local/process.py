"""Running one command from outside its sandbox: pipes drained at once and capped, the whole tree killed on time.

Every process that a command starts inherits the command's tag, written into RLIMIT_RTTIME, a limit that only
real-time scheduling ever meets. A new session, a double fork or an empty environment do not shed it.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from backends.spec import ExecuteResponse, cut_utf8

_CHUNK = 1 << 16
_DISCARD_INTERVAL_SEC = 0.02
_SWEEPS = 8
_DEATH_SEC = 2.0
_REAP_SEC = 0.5
_MAX_WAITED = 128
CLEAN_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
"""All that a command inherits. Variables of the caller come through the script, never through argv or this."""


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
    kill_all: Callable[[], None],
) -> ExecuteResponse:
    """Run `argv` with `script` as its descriptor 3, and wait for it, at most `timeout` seconds.

    `stdin` is content, a descriptor, or None for nothing; `stdout` a descriptor that takes the place of capturing.
    `kill_all` is the last resort against a command that forks faster than its processes can be found.
    """
    loop = asyncio.get_running_loop()
    began = time.monotonic()
    out, err = _Stream(max_output), _Stream(max_output)
    pid = pidfd = -1
    ended = timed_out = False
    try:
        pid = _start(argv, script, stdin, out.write_end if stdout is None else stdout, err.write_end)
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
            _, status = os.waitpid(pid, 0)  # noqa: ASYNC222 - it has ended
        leftovers.take(out)
        leftovers.take(err)
    code = os.waitstatus_to_exitcode(status)
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


def _start(argv: list[str], script: bytes, stdin: bytes | int | None, out: int, err: int) -> int:
    mine = [_memory_file(script)]
    try:
        if stdin is None:
            mine.append(os.open(os.devnull, os.O_RDONLY))
        elif isinstance(stdin, bytes):
            mine.append(_memory_file(stdin))
        return spawn(argv, stdin if isinstance(stdin, int) else mine[1], out, err, mine[0])
    finally:
        for fd in mine:
            os.close(fd)


def _memory_file(content: bytes) -> int:
    fd = os.memfd_create("stdin")
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class _Stream:
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
        self._streams: set[_Stream] = set()
        self._timer: asyncio.TimerHandle | None = None

    def take(self, stream: _Stream) -> None:
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


def _kill_command(pid: int, tag: int, kill_all: Callable[[], None]) -> None:
    """Kill a command that `pid` entered the namespace for: what is inside first, so that `pid` can reap its child."""
    if not kill_tagged(tag, tag + 1, spare=pid):
        kill_all()
    pidfd = os.pidfd_open(pid)
    if not select.select([pidfd], [], [], _REAP_SEC)[0]:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        select.select([pidfd], [], [])
        # It may have entered between the sweep and its end.
        kill_tagged(tag, tag + 1, spare=pid)
    os.close(pidfd)


def run_blocking(argv: list[str], script: bytes, *, timeout: float) -> None:
    """Run `argv` with `script` as its descriptor 3 and wait for it, on no event loop."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        pid = _start(argv, script, null, null, null)
    finally:
        os.close(null)
    pidfd = os.pidfd_open(pid)
    ended, _, _ = select.select([pidfd], [], [], timeout)
    if not ended:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)
    os.waitpid(pid, 0)


def kill_tagged(first: int, end: int, *, spare: int | None = None) -> bool:
    """Kill every process whose tag is in [first, end); whether all but `spare` are gone. Blocks for milliseconds."""
    for _ in range(_SWEEPS):
        waiting = select.poll()
        victims: set[int] = set()
        for pidfd in _tagged(first, end, spare):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            if len(victims) < _MAX_WAITED:
                waiting.register(pidfd, select.POLLIN)
                victims.add(pidfd)
            else:
                os.close(pidfd)
        if not victims:
            return True
        patience = time.monotonic() + _DEATH_SEC
        while victims and (wait := patience - time.monotonic()) > 0:
            for pidfd, _event in waiting.poll(wait * 1000):
                waiting.unregister(pidfd)
                victims.discard(pidfd)
                os.close(pidfd)
        for pidfd in victims:
            os.close(pidfd)
    return False


def _tagged(first: int, end: int, spare: int | None) -> Iterator[int]:
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == spare:
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
