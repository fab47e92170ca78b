"""A framed request for an SDK that takes one line of shell and gives text back: everything travels as base64.

The reply stands between two marks of its own, so that what a login profile or the provider prints around it is not
taken for it. Needs base64 (coreutils or busybox) in the image.
"""

from __future__ import annotations

import base64
import binascii
import shlex

from backends.errors import SandboxError
from backends.frame import Request
from backends.remote.channel import Reply

INLINE_STDIN_BYTES = 60_000
"""Up to this many bytes of stdin travel in a variable; more must be put into a file first (one variable: 128 KiB)."""


def line(request: Request, token: str, *, stdin_path: str | None = None) -> tuple[str, dict[str, str]]:
    """The line to run with `sh` or `bash`, and its environment. `token` is fresh for each request.

    `stdin_path` is a file with the request's stdin, removed at the end; needed above INLINE_STDIN_BYTES.
    """
    env = dict(request.env)
    command = shlex.join(request.argv)
    after = ""
    if stdin_path is not None:
        command = f"{command} <{shlex.quote(stdin_path)}"
        after = f"rm -f {shlex.quote(stdin_path)}; "
    elif request.stdin:
        env["HX_STDIN"] = base64.b64encode(request.stdin).decode()
        command = f'printf %s "$HX_STDIN" | base64 -d | {{ unset HX_STDIN; {command}; }}'
    else:
        command = f"{command} </dev/null"
    # All of it is written in one go, at the end: who is cut off before that, and comes back, has missed nothing.
    packed = f"{{ {command}; echo {token} $?; {after}}} 2>/dev/null | base64"
    return f"x=$({packed}); printf '%s\\n' {token} \"$x\"", env


def reply_size(request: Request) -> int:
    """How many characters the longest reply has that the request allows, and what stands around it."""
    return request.limit * 3 // 2 + (1 << 16)


def too_much() -> SandboxError:
    """The error for a reply beyond that."""
    return SandboxError("the sandbox sent more than the command may return", operation="execute")


def decode(text: str, request: Request, token: str) -> Reply:
    """What the request wrote. Raises SandboxError if it is more than the request allows."""
    if len(text) > reply_size(request):
        raise too_much()
    _, mark, body = text.partition(token + "\n")
    if not mark:
        return Reply(text[-4096:].encode("utf-8", "replace"))
    letters = "".join(body.split())
    try:
        data = base64.b64decode(letters[: len(letters) // 4 * 4])
    except binascii.Error:
        return Reply(b"")
    head, mark_bytes, code = data.rpartition(token.encode() + b" ")
    if mark_bytes and code.strip().isdigit():
        return Reply(head, int(code))
    return Reply(data)
