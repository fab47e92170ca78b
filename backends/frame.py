"""One command in one framed reply, for any sandbox that has a POSIX shell: the wrapper, its reply, and its sweep.

The wrapper runs inside the sandbox, as the command's user. What it does, in order:

- says that it began (no such line means that nothing ran: an error of the sandbox, never a result);
- lets the command write into two FIFOs. A relay and a reader behind each keep the first bytes and count the rest, so a
  flood costs neither memory nor disk. Where a child in the background keeps a FIFO open, a drain takes the relay's
  place: the call ends, and the child does not die of a closed pipe;
- kills, at the deadline, every process that carries the command's cookie in its environment. That also finds those
  that left the process group or the session; a file, and no exit code, says that the deadline did it;
- replies with both streams, the exit code, the counts and the kernel's OOM counter before and after.

The script travels in the environment, so that `pkill -f` inside the sandbox never matches the wrapper's own words.
Needs sh, mkfifo, head, wc, cat, rm, sleep and grep: coreutils and grep, or busybox (whose head makes the true size of
a cut stream up to 4 KiB too small). Commands run with bash where the image has it, else with sh.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from backends.spec import ExecuteResponse, cut_utf8

INLINE_BYTES = 50_000
"""Commands up to this length travel in the environment, longer ones on stdin: one argument holds 128 KiB at most."""

DIRECTORY = "/run/.harness"
"""Where FIFOs and captures lie while a command runs; /tmp where that directory is missing."""

_COOKIE = "HARNESS_EXEC"
_CHARACTER = 4  # captured beyond `max_output`, so that the cut can respect the last character

_SWEEP = """
sweep() {
  i=0
  while [ $i -lt 50 ]; do
    p=$(LC_ALL=C grep -lsF -e "$1" /proc/[0-9]*/environ) || [ "$p" ] || return 0
    for f in $p; do f=${f#/proc/}; kill -9 "${f%/*}" 2>/dev/null; done
    i=$((i + 1))
  done
}
"""

_SCRIPT = (
    _SWEEP
    + """
n=$1 cap=$2 limit=$3 script=$4 input=$5
cmd=$HX_CMD cwd=$HX_CWD path=${PATH-} d=$HX_DIR mark=$HX_MARK
unset HX_RUN HX_CMD HX_CWD HX_DIR HX_MARK
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin${path:+:$path}
[ -w "$d" ] || d=/tmp
d=$d/$n
echo "$mark"
mkfifo -m 600 "$d.f1" "$d.f2" || exit 1
exec 2>/dev/null

killed() {
  k=-
  for f in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r $f ] && while read -r x y; do [ "$x" = oom_kill ] && k=$y; done <$f
  done
}
relay() {
  read -r x y </proc/self/stat
  echo "$x" >"$d.p$1"
  exec cat <"$d.f$1"
}
take() { head -c "$cap" >"$d.$1"; exec wc -c >"$d.n$1"; }
linger() {
  sleep 0.2
  for x in 1 2; do
    [ -s "$d.n$x" ] && continue
    exec 9<>"$d.f$x" # so that the next open cannot block
    cat <"$d.f$x" 9>&- &
    exec 9>&-
    read -r p <"$d.p$x" && kill -9 "$p"
  done
}
finish() {
  t=0
  [ -e "$d.t" ] && t=1
  printf %s "$mark" >"$d.s"
  cat "$d.1" "$d.s" "$d.2"
  echo "$mark $1 $t $a $b $2 $3"
  exec rm -f "$d".*
}

if [ "$script" -gt 0 ] && [ "$input" -gt 0 ]; then # one head only: busybox's reads past what it was asked for
  head -c $((script + input)) >"$d.a" && head -c "$script" "$d.a" >"$d.c" && tail -c "$input" "$d.a" >"$d.i"
elif [ "$script" -gt 0 ]; then
  head -c "$script" >"$d.c"
fi || exit 1
[ "$script" -eq 0 ] || cmd=". '$d.c'"
for sh in /bin/bash /usr/bin/bash /usr/local/bin/bash /bin/sh; do [ -x $sh ] && break; done

a=- b=-
if ! CDPATH= cd -- "$cwd"; then
  [ -e "$d.i" ] || head -c "$input" >/dev/null
  : >"$d.1"
  echo "cd: $cwd: cannot enter the working directory" >"$d.2"
  finish 126 0 0
fi

killed
a=$k
( trap 'kill $!; exit' TERM; sleep "$limit" & wait $! && { : >"$d.t"; trap '' TERM; sweep "__COOKIE__=$n"; }
) </dev/null >/dev/null &
w=$!
relay 1 | take 1 &
r1=$!
relay 2 | take 2 &
r2=$!
main() { # a subshell, or dash writes its own word "Killed" into the command's stderr
  ( export PATH="$path" __COOKIE__=$n; exec $sh -c "$cmd" ${sh##*/} ) 2>"$d.f2"
}
if [ -e "$d.i" ]; then main <"$d.i"
elif [ "$input" -gt 0 ]; then # what the command leaves unread is read for it, or an engine may wait for ever
  head -c "$input" | { main; rc=$?; cat >/dev/null; exit $rc; }
else main </dev/null
fi >"$d.f1"
rc=$?
if [ -e "$d.t" ]; then wait $w; else kill $w; fi
linger </dev/null >/dev/null & # in case a child in the background keeps a stream open
h=$!
wait $r1 $r2
kill $h
killed
b=$k
read -r x <"$d.n1"
read -r y <"$d.n2"
finish $rc ${x:-0} ${y:-0}
""".replace("__COOKIE__", _COOKIE)
)

_KILL = (
    _SWEEP
    + """
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin${PATH:+:$PATH}
sweep "$1"
rm -f "$HX_DIR/$2".* "/tmp/$2".*
for f in /proc/[0-9]*; do
  true <"$f/environ" || while read -r k v x; do [ "$k" = Uid: ] && echo "$v"; done <"$f/status"
done 2>/dev/null
:
"""
)


class FrameError(Exception):
    """The reply is not a whole frame. `began` tells whether the wrapper had started."""

    def __init__(self, message: str, *, began: bool) -> None:
        super().__init__(message)
        self.began = began


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a backend hands to its own exec call: argv, environment, and the bytes of stdin.

    A reply longer than `limit` bytes is not one that the wrapper wrote.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: bytes = b""
    nonce: str = ""
    mark: str = ""
    max_output: int = 0
    limit: int


def request(
    command: str,
    *,
    timeout: float,
    cwd: str,
    max_output: int,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    stdin_size: int | None = None,
) -> Request:
    """Frame one command. `stdin_size` announces a stdin that the backend streams itself.

    Raises ValueError for what no process can be given (a NUL, an impossible name).
    """
    for name, value in (env or {}).items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"not an environment variable: {name!r}")
    if "\0" in command or "\0" in cwd:
        raise ValueError("a command and its directory cannot contain a NUL character")
    script = command.encode("utf-8", "surrogateescape")
    inline = len(script) <= INLINE_BYTES
    nonce = secrets.token_hex(16)
    mark = f"{nonce}.{secrets.token_hex(8)}"  # what the command sees of itself (its cookie) is no frame's mark
    kept = max_output + _CHARACTER
    sizes = ("0" if inline else str(len(script)), str(len(stdin or b"") if stdin_size is None else stdin_size))
    return Request(
        argv=("/bin/sh", "-c", 'eval "$HX_RUN"', "harness", nonce, str(kept), f"{timeout:.3f}", *sizes),
        env={
            **(env or {}),
            "HX_RUN": _SCRIPT,
            "HX_CMD": command if inline else "",
            "HX_CWD": cwd,
            "HX_DIR": DIRECTORY,
            "HX_MARK": mark,
        },
        stdin=(b"" if inline else script) + (stdin or b""),
        nonce=nonce,
        mark=mark,
        max_output=max_output,
        limit=2 * kept + 4096,
    )


def sweep(nonce: str, *, wrapper: bool) -> Request:
    """Kill the processes of one command, and with `wrapper` those of its wrapper too.

    The reply lists the numeric users of processes whose environment this sweep's own user may not read.
    """
    pattern = nonce if wrapper else f"{_COOKIE}={nonce}"
    return Request(
        argv=("/bin/sh", "-c", 'eval "$HX_RUN"', "harness", pattern, nonce),
        env={"HX_RUN": _KILL, "HX_DIR": DIRECTORY},
        nonce=nonce,
        limit=1 << 16,
    )


def parse(request: Request, reply: bytes, duration_sec: float) -> ExecuteResponse:
    """The result that a reply carries. Raises FrameError when it is not whole."""
    mark = request.mark.encode()
    head = mark + b"\n"
    if not reply.startswith(head):
        raise FrameError(_excerpt(reply), began=False)
    body, _, tail = reply[len(head) :].rpartition(mark)
    stdout, between, stderr = body.partition(mark)
    fields = tail.decode("ascii", "replace").split()
    if not between or len(fields) != 6 or not tail.endswith(b"\n"):
        raise FrameError(_excerpt(reply[len(head) :]), began=True)
    try:
        code, late, out_more, err_more = (int(fields[place]) for place in (0, 1, 4, 5))
        oom = None if "-" in fields[2:4] else int(fields[3]) > int(fields[2])
    except ValueError as error:
        raise FrameError(_excerpt(tail), began=True) from error
    kept = request.max_output + _CHARACTER
    return ExecuteResponse(
        stdout=cut_utf8(stdout, request.max_output),
        stderr=cut_utf8(stderr, request.max_output),
        stdout_size=len(stdout) + (out_more if len(stdout) == kept else 0),
        stderr_size=len(stderr) + (err_more if len(stderr) == kept else 0),
        exit_code=None if late else code,
        timed_out=bool(late),
        oom=oom,
        duration_sec=duration_sec,
    )


def _excerpt(reply: bytes) -> str:
    return reply[-300:].decode("utf-8", "replace").strip() or "no reply"
