"""Asking the doorman, a process of ours outside every namespace, to start a command in one."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from backends.lifecycle import finish
from backends.local import doorman
from backends.local.namespaces import Limits
from backends.local.spawn import spawn
from backends.local.waiting import readable, ready

_CLONE_NEWNET = 0x40000000
_NAMESPACES = 0x10000000 | 0x00020000 | 0x20000000 | 0x08000000 | 0x04000000  # user, mount, pid, ipc, uts
_REASON_BYTES = 500
ANSWER_SEC = 10.0
"""What takes milliseconds: a doorman that has not answered by then is stopped, and another one takes its place."""
_END_SEC = 1.0


class NotStarted(Exception):
    """The command's shell never ran, so its exit code says nothing of the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How a command is to run.

    Attributes:
        pidfd: of the namespace's pid 1; None is no namespace, where the command dies with this process.
        uid: on the host. As the sandbox's own, it could enter no other namespace than its own.
        network: the host's network stays.
        tag: what the command's processes are known by, see `tags`.
        seal: forbid further namespaces in this one, and start no command. Commands need none, and the kernel has had
            holes there.
    """

    pidfd: int | None
    uid: int | None
    network: bool
    tag: int
    limits: Limits
    seal: bool = False

    def request(self, env: Mapping[str, str]) -> bytes:
        """For the doorman. Limits are set inside, last, so that commands at their limit of processes cannot keep the
        next one out."""
        wanted = {
            resource.RLIMIT_RTTIME: self.tag,
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_NPROC: self.limits.processes,
            resource.RLIMIT_FSIZE: self.limits.file_bytes,
            resource.RLIMIT_DATA: self.limits.data_bytes,
        }
        limits = [(kind, _possible(kind, value)) for kind, value in wanted.items() if value is not None]
        namespaces = 0 if self.pidfd is None else _NAMESPACES | (0 if self.network else _CLONE_NEWNET)
        return json.dumps(
            {
                "uid": self.uid if self.pidfd is not None else None,
                "namespaces": namespaces,
                "dies_with_parent": self.pidfd is None,
                "limits": limits,
                "seal": self.seal,
                "env": env,
            }
        ).encode()


def _possible(kind: int, value: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def answered(answer: int, *, within: float = 0.0) -> int:
    """The pid of the command, a child of this process, or 0 of none that was asked for.

    Waits `within` seconds, and then ends the doorman. Closes `answer`. Raises NotStarted with the reason.
    """
    try:
        answers = ready(answer, within)
        if not answers:
            DOORMAN.end()  # what it had not begun ends with it
        told = os.read(answer, doorman.ANSWER.size + _REASON_BYTES) if ready(answer, _END_SEC) else b""
    finally:
        os.close(answer)
    if len(told) < doorman.ANSWER.size:
        raise NotStarted(f"what should have started it {'was killed' if answers else 'did not answer'}")
    entered, pid = doorman.ANSWER.unpack_from(told)
    if entered:
        os.waitpid(entered, 0)
    reason = told[doorman.ANSWER.size :].decode("utf-8", "replace")
    if reason:
        raise NotStarted(reason)
    return int(pid)


async def told(answer: int) -> None:
    """Wait until `answered` need not, at most ANSWER_SEC; a caller that is cancelled meanwhile is told afterwards."""
    with readable(answer) as ready_to_read:
        await finish(ready_to_read, timeout=ANSWER_SEC)


class Doorman:
    """The process that starts commands (see `doorman`): started when it is first needed, and ends with this one.

    `pid` is its own, -1 before that.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.pid = self._owner = -1
        self._socket: socket.socket | None = None

    def ask(self, entry: Entry, env: Mapping[str, str], stdin: int, stdout: int, stderr: int, script: int) -> int:
        """Have `sh` started on these descriptors, `script` as its 3; returns the descriptor of the answer."""
        answer, write_end = os.pipe()
        try:
            first = stdin if entry.pidfd is None else entry.pidfd
            self._send(entry.request(env), [first, stdin, stdout, stderr, script, write_end])
        except BaseException:
            os.close(answer)
            raise
        finally:
            os.close(write_end)
        return answer

    def end(self) -> None:
        """Kill it, stopped or not. The next command has another one started."""
        with self._lock:
            self._forget()

    def _send(self, request: bytes, descriptors: list[int]) -> None:
        with self._lock:
            try:
                socket.send_fds(self._connected(), [request], descriptors)
            except (BrokenPipeError, ConnectionResetError, TimeoutError):
                self._forget()  # somebody killed or stopped it; another one does as well
                socket.send_fds(self._connected(), [request], descriptors)

    def _connected(self) -> socket.socket:
        if self._socket is None or self._owner != os.getpid():
            # After a fork, the other process's would make children of that one.
            self._socket, self.pid = _start()
            self._owner = os.getpid()
        return self._socket

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            with suppress(ChildProcessError):
                if os.waitpid(self.pid, os.WNOHANG) == (0, 0):
                    os.kill(self.pid, signal.SIGKILL)
                    os.waitpid(self.pid, 0)


DOORMAN = Doorman()


def _start() -> tuple[socket.socket, int]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(ANSWER_SEC)  # reached only behind a hundred requests that nobody takes
    null = os.open(os.devnull, os.O_RDWR)
    try:
        pid = spawn([sys.executable, "-I", "-S", doorman.__file__], theirs.fileno(), null, null)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        os.close(null)
    return ours, pid
