"""A small program that starts commands in namespaces: `python -I -S doorman.py`, its requests on descriptor 0.

To enter a namespace a process has to fork once for the pids and give up what it is for the users. Done by tools, one
after another, that costs five programs a command; here it costs two forks of a small process. Both are made as children
of the harness (CLONE_PARENT), which thus waits for the command itself, and for nobody who waits for it.

It imports nothing of ours, holds nothing of the harness's environment, and ends when the harness closes the socket.
"""

import contextlib
import ctypes
import errno
import gc
import json
import os
import resource
import signal
import socket
import struct

DESCRIPTORS = 6
ANSWER = struct.Struct("ii")
"""The pid of who entered, which ends at once, and that of the command, each 0 if there is none; then the reason."""
_CLONE_PARENT, _CLONE_NEWUTS = 0x8000, 0x04000000
_CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220, "ppc64le": 120}.get(os.uname().machine, -1)
"""The call's number. Not clone3, which containers forbid (as if it did not exist), since its flags cannot be seen."""
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_CAPSET_VERSION = 0x20080522
_LAST_CAPABILITY = 63
_MESSAGE = 1 << 14
_libc = ctypes.PyDLL(None, use_errno=True)


def enters() -> bool:
    """Whether the kernel lets a process into namespaces by a pidfd, as Linux does since 5.8. Changes nothing."""
    try:
        own = os.pidfd_open(os.getpid())
    except OSError:
        return False
    try:
        _checked(_libc.setns(own, _CLONE_NEWUTS))
    except OSError as error:
        return error.errno == errno.EPERM  # of an ordinary user, whom a new user namespace gives the right
    finally:
        os.close(own)
    return True


def main() -> None:
    """Serve until the other end is closed."""
    requests = socket.socket(fileno=0)
    gc.freeze()  # a collection in a fork would copy all that it looks at
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, _MESSAGE, DESCRIPTORS)
        if not message:
            os._exit(0)
        try:
            child = _fork()
        except OSError as error:
            child = -1
            os.write(descriptors[-1], ANSWER.pack(0, 0) + str(error).encode())
        if child == 0:
            _enter(json.loads(message), descriptors)
        for each in descriptors:
            os.close(each)


def _enter(request: dict, descriptors: list[int]) -> None:  # type: ignore[type-arg]
    """Become the sandbox's user, enter its namespaces, and start the command there. Never returns."""
    pidfd, stdin, stdout, stderr, script, reply = descriptors
    try:
        uid = request["uid"]
        if uid is not None:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        if request["namespaces"]:
            _checked(_libc.setns(pidfd, request["namespaces"]))
        pid = 0 if request["seal"] else _fork()
        if request["seal"]:
            _seal()
    except OSError as error:
        os.write(reply, ANSWER.pack(os.getpid(), 0) + str(error).encode())
        os._exit(1)
    if pid or request["seal"]:
        os.write(reply, ANSWER.pack(os.getpid(), pid))
        os._exit(0)
    try:
        os.setsid()
        for number, each in enumerate((stdin, stdout, stderr, script)):
            os.dup2(each, number)
        os.closerange(4, 256)
        _command(request)
    except Exception as error:  # noqa: BLE001 - whatever it is, whoever asked is told
        with contextlib.suppress(OSError):
            os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(127)


def _seal() -> None:
    setting = os.open("/proc/sys/user/max_user_namespaces", os.O_WRONLY)
    os.write(setting, b"0")
    os.close(setting)


def _command(request: dict) -> None:  # type: ignore[type-arg]
    """Take the limits on, give the capabilities up, and become the shell."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    if request["dies_with_parent"]:
        _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    for kind, value in request["limits"]:
        resource.setrlimit(kind, (value, value))
    if request["namespaces"]:
        for capability in range(_LAST_CAPABILITY + 1):
            if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
                break  # the kernel knows no more
        _drop_inheritable()
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    # Nothing can be imported any more: the files seen from here are the sandbox's. So os.execvpe is of no use.
    for folder in request["env"]["PATH"].split(":"):
        with contextlib.suppress(FileNotFoundError):
            os.execve(f"{folder}/sh", ["sh", "/dev/fd/3"], request["env"])  # noqa: S606


def _drop_inheritable() -> None:
    head = (ctypes.c_uint32 * 2)(_CAPSET_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable: low halves, then high ones
    _checked(_libc.capget(head, sets))
    sets[2] = sets[5] = 0
    _checked(_libc.capset(head, sets))


def _fork() -> int:
    """As os.fork, but the child is the caller's sibling."""
    none = ctypes.c_long(0)
    return _checked(_libc.syscall(ctypes.c_long(_CLONE), ctypes.c_long(_CLONE_PARENT), none, none, none, none))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


if __name__ == "__main__":
    main()
