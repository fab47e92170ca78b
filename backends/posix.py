"""File operations for any sandbox that can run a POSIX shell: plain functions over its `execute`.

The image needs sh, cat, head, cut, find, grep, ls, mkdir, chmod and stat (coreutils or busybox), and no python.
Which builtin exception a failure becomes is read from the C-locale errno text that ends our own tool's message, so
that the check and the operation are one and cannot race. Two framings are unambiguous whatever a file is called:

- a path that find prints contains no `//` (its components are not empty), so `//` and a newline end a record;
- matches of grep stand between copies of a random token, which no file can contain.

Names that are not UTF-8 are shown with U+FFFD.
"""

from __future__ import annotations

import re
import secrets
import shlex
import stat
from collections.abc import Awaitable, Callable, Iterator

from backends.errors import SandboxDiskFull, SandboxError, SandboxTimeout
from backends.spec import ExecuteResponse, FileInfo, GrepMatch

Execute = Callable[..., Awaitable[ExecuteResponse]]
"""`SandboxBackendProtocol.execute`, or the same with some arguments (the user, say) already bound."""

FILE_TIMEOUT_SEC = 60.0
"""Deadline of one file operation."""

MAX_EDIT_BYTES = 64 << 20
MAX_LISTING_BYTES = 16 << 20
MAX_LINE_BYTES = 2000

_ERRNO_TEXT: dict[str, type[OSError]] = {
    "No such file or directory": FileNotFoundError,
    "Is a directory": IsADirectoryError,
    "Not a directory": NotADirectoryError,
    "Permission denied": PermissionError,
    "Operation not permitted": PermissionError,
    "Read-only file system": PermissionError,
    "Not a regular file": PermissionError,
    "File exists": NotADirectoryError,  # mkdir -p, where a parent is a file
}
_FULL_TEXT = ("No space left on device", "Disk quota exceeded", "Quota exceeded", "File too large")


def absolute(path: str, workdir: str) -> str:
    """`path` against `workdir`, without empty or `.` components. `..` stays: only the sandbox knows its links."""
    if "\0" in path:
        raise ValueError("a path cannot contain a NUL character")
    joined = path if path.startswith("/") else f"{workdir}/{path}"
    return "/" + "/".join(part for part in joined.split("/") if part not in ("", "."))


async def read(execute: Execute, path: str, *, max_bytes: int = 64 << 20) -> bytes:
    """The first `max_bytes` of a file. Raises FileNotFoundError, IsADirectoryError, PermissionError."""
    script = (
        '[ -d "$f" ] && fail "Is a directory"\n'
        '[ -p "$f" ] || [ -S "$f" ] && fail "Not a regular file"\n'
        f'exec head -c {max_bytes} "$f"'
    )
    return (await _run(execute, script, path, max_output=max_bytes)).stdout


async def write(execute: Execute, path: str, data: bytes, *, mode: int | None = None) -> None:
    """Create or replace a file, parents included. Raises IsADirectoryError, NotADirectoryError, PermissionError."""
    script = (
        '[ -d "$f" ] && fail "Is a directory"\n'
        'd=${f%/*}\n[ -d "$d/" ] || mkdir -p "$d" || exit\n'
        '[ -p "$f" ] || [ -S "$f" ] && fail "Not a regular file"\n'
        'cat >"$f" || exit\n'
    )
    if mode is not None:
        script += f'exec chmod {mode:o} "$f"'
    await _run(execute, script, path, stdin=data)


async def edit(execute: Execute, path: str, old: str, new: str, *, replace_all: bool = False) -> int:
    """Replace `old` by `new` and return how often. Raises ValueError if `old` is absent, or not unique."""
    if not old:
        raise ValueError("the text to replace is empty")
    data = await read(execute, path, max_bytes=MAX_EDIT_BYTES + 1)
    if len(data) > MAX_EDIT_BYTES:
        raise ValueError(f"{path} is larger than {MAX_EDIT_BYTES} bytes")
    before = old.encode("utf-8", "surrogateescape")
    count = data.count(before)
    if count == 0:
        raise ValueError(f"the text to replace does not occur in {path}")
    if count > 1 and not replace_all:
        raise ValueError(f"the text to replace occurs {count} times in {path}; it must be unique")
    await write(execute, path, data.replace(before, new.encode("utf-8", "surrogateescape")))
    return count


async def ls(execute: Execute, path: str) -> list[FileInfo]:
    """The entries of a directory, sorted by path. Raises FileNotFoundError, NotADirectoryError, PermissionError."""
    script = f'[ -d "$f" ] || exec ls -d "$f/"\nfind -H "$f" -mindepth 1 -maxdepth 1 {_STAT}'
    return sorted(_records(await _listing(execute, script, path)), key=lambda info: info.path)


async def glob(execute: Execute, pattern: str, path: str, *, max_matches: int = 1000) -> list[FileInfo]:
    """What is no directory, below `path`, and fits a shell pattern in which `**` crosses directories; sorted."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError("a glob pattern cannot contain '..'")
    root = "/" if pattern.startswith("/") else path
    base = root.rstrip("/")
    literal = 0
    while literal < len(parts) - 1 and not re.search(r"[*?\[]", parts[literal]):
        literal += 1
    start = "/".join([base, *parts[:literal]])
    depth = "" if "**" in parts else f"-maxdepth {len(parts) - literal}"
    script = (
        f'[ -e "$f" ] || exec ls -d "$f"\nf={shlex.quote(start or "/")}\n[ -d "$f" ] || exit 0\n'
        f'find -H "$f" {depth} ! -type d {_STAT}'
    )
    fits = re.compile(glob_regex("/".join(parts))).fullmatch
    found = [
        info for info in _records(await _listing(execute, script, root)) if fits(info.path[len(base) :].lstrip("/"))
    ]
    return sorted(found, key=lambda info: info.path)[:max_matches]


async def grep(
    execute: Execute, pattern: str, path: str, *, include: str | None = None, max_matches: int = 1000
) -> list[GrepMatch]:
    """Lines that match the extended regular expression, in text files below `path` whose name fits `include`.

    Raises ValueError for a malformed expression and FileNotFoundError. Lines are cut at MAX_LINE_BYTES.
    """
    if "\n" in pattern or "\0" in pattern:
        raise ValueError("a pattern is one line of text")
    token = secrets.token_hex(16)
    quoted = shlex.quote(pattern)
    name = f"-name {shlex.quote(include)}" if include is not None else ""
    # One grep counts a whole batch, in order and without names; only files that match cost a second process.
    batch = (
        "t=$0 p=$1; shift\n"
        'c=$(grep -hcsE -e "$p" -- "$@")\n'
        "set -f; n=0; for i in $c; do n=$((n + 1)); done\n"
        '[ "$n" = "$#" ] || c=$(for f; do echo 1; done)\n'
        "for i in $c; do\n"
        f'  [ "$i" = 0 ] || {{ printf "%s%s%s" "$t" "$1" "$t"; grep -nsE -m {max_matches} -e "$p" -- "$1" '
        f"| cut -b 1-{MAX_LINE_BYTES + 20}; }}\n"
        "  shift\ndone"
    )
    script = (
        f'[ -e "$f" ] || exec ls -d "$f"\n'
        f'e=$(echo | grep -E -e {quoted} 2>&1 >/dev/null); [ -z "$e" ] || {{ echo "$e" >&2; exit 3; }}\n'
        f'find -H "$f" -type f {name} -exec sh -c {shlex.quote(batch)} {token} {quoted} {{}} + 2>/dev/null '
        f"| head -c {MAX_LISTING_BYTES}"
    )
    response = await _run(execute, script, path, max_output=MAX_LISTING_BYTES, accept=(0, 3))
    if response.exit_code == 3:
        raise ValueError(f"bad pattern {pattern!r}: {_last_line(response)}")
    found = _matches(response.stdout, token.encode())
    return sorted(found, key=lambda match: (match.path, match.line))[:max_matches]


def glob_regex(pattern: str) -> str:
    """The regular expression of a relative shell pattern: `*` and `?` stay within one name, `**` does not."""
    out = []
    position = 0
    while position < len(pattern):
        rest = pattern[position:]
        bracket = re.match(r"\[([!^]?)(\]?[^]]*)\]", rest)
        if rest.startswith("**/"):
            out.append("(?:[^/]+/)*")
            position += 3
        elif rest == "**":
            out.append(".*")
            position += 2
        elif rest[0] in "*?":
            out.append("[^/]*" if rest[0] == "*" else "[^/]")
            position += 1
        elif bracket and bracket[2]:
            out.append(_bracket_regex(bracket[2], negated=bool(bracket[1])))
            position += bracket.end()
        else:
            out.append(re.escape(rest[0]))
            position += 1
    return "(?s:" + "".join(out) + ")"


def _bracket_regex(body: str, *, negated: bool) -> str:
    """One bracket expression; a range that runs backwards holds nothing, as in a shell."""
    escaped = re.sub(r"([\\\[\]&~|^])", r"\\\1", body).replace("--", r"-\-")
    try:
        re.compile(f"[{escaped}]")
    except re.error:
        return "[^/]" if negated else "(?!)"
    return f"(?!/)[{'^' if negated else ''}{escaped}]"


_STAT = "-exec stat -c '%f %s %n//' {} +"


async def _run(
    execute: Execute,
    script: str,
    path: str,
    *,
    stdin: bytes | None = None,
    max_output: int = 1 << 16,
    accept: tuple[int, ...] = (0,),
) -> ExecuteResponse:
    """Run one of our scripts with `$f` set to an absolute path; a failure becomes the exception it stands for."""
    prelude = 'export LC_ALL=C\nfail() { echo "$f: $1" >&2; exit 1; }\n'
    command = f"{prelude}f={shlex.quote(path)}\n{script}"
    response = await execute(command, timeout=FILE_TIMEOUT_SEC, cwd="/", stdin=stdin, max_output=max_output)
    check(response, path, accept=accept)
    return response


async def _listing(execute: Execute, script: str, path: str) -> bytes:
    """Output of find. What vanished or is unreadable below `path` is left out; `path` itself is not."""
    response = await _run(execute, script, path, max_output=MAX_LISTING_BYTES, accept=(0, 1))
    if not response.stdout:
        check(response, path)
    return response.stdout


def check(response: ExecuteResponse, path: str, *, accept: tuple[int, ...] = (0,)) -> None:
    """Raise what a failed file operation on `path`, run with LC_ALL=C, stands for."""
    if response.timed_out:
        raise SandboxTimeout(f"a file operation on {path} took over {response.duration_sec:.0f} s", operation="files")
    if response.exit_code in accept:
        return
    line = _last_line(response)
    for text, error in _ERRNO_TEXT.items():
        if line.endswith(text):
            raise error(f"{path}: {'not a directory' if error is NotADirectoryError else text.lower()}")
    # shells have their own words where a directory of the path is missing
    if line.endswith(("Directory nonexistent", "nonexistent directory", "No such file")):
        raise FileNotFoundError(f"{path}: no such file or directory")
    if line.endswith(_FULL_TEXT):
        raise SandboxDiskFull(f"{path}: no space left in the sandbox", operation="files")
    raise SandboxError(f"{path}: {line or f'exit code {response.exit_code}'}", operation="files")


def _last_line(response: ExecuteResponse) -> str:
    return response.stderr.decode("utf-8", "replace").rstrip("\n").rpartition("\n")[2]


def _records(listing: bytes) -> Iterator[FileInfo]:
    for record in listing.split(b"//\n")[:-1]:
        mode, size, name = record.split(b" ", 2)
        bits = int(mode, 16)
        kind = "file" if stat.S_ISREG(bits) else "dir" if stat.S_ISDIR(bits) else "link"
        if kind == "link" and not stat.S_ISLNK(bits):
            kind = "other"
        yield FileInfo(path=name.decode("utf-8", "replace"), kind=kind, size=int(size))


def _matches(output: bytes, token: bytes) -> Iterator[GrepMatch]:
    parts = output.split(token)
    for name, lines in zip(parts[1::2], parts[2::2], strict=False):
        for line in lines.split(b"\n"):
            number, colon, text = line.partition(b":")
            # Other lines are grep's remark that the file is binary; text with a NUL is binary to a grep without one.
            if colon and number.isdigit() and b"\0" not in text:
                yield GrepMatch(
                    path=name.decode("utf-8", "replace"),
                    line=int(number),
                    text=text[:MAX_LINE_BYTES].decode("utf-8", "replace"),
                )
