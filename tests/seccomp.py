"""A kernel that refuses some system calls: what a container's filter, or an older kernel, makes of this one."""

from __future__ import annotations

import ctypes
import os
import struct

NUMBERS = {"x86_64": {"clone3": 435, "setns": 308}, "aarch64": {"clone3": 435, "setns": 268}}
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2


def refuse(call: str, code: int) -> None:
    """From now on `call` fails with `code` in this process and all that it starts. Raises OSError."""
    number = NUMBERS[os.uname().machine][call]
    program = [(_LOAD, 0, 0, 0), (_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | code), (_RETURN, 0, 0, _ALLOW)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(text)))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero) or libc.prctl(
        _PR_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), header
    ):
        raise OSError(ctypes.get_errno(), "no filter can be set")
