"""The first process of a Modal sandbox: a clock that ends it when its time is up, and that can be set anew.

Modal fixes a sandbox's lifetime when it is created, and a time to live is renewable. So the lifetime asked for is the
longest that Modal has, and this clock, not the server's, is the time to live: it runs whether or not the harness
still does, and a signal sets it. Whoever is root inside can stop it, and gains no more than the server's own limit.
"""

from __future__ import annotations

import math

from backends.frame import Request

LONGEST_SEC = 24 * 3600
"""Modal's own limit of a sandbox's lifetime."""

_FILE = "/run/.harness.clock"

_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin${PATH:+:$PATH}\n"

_CLOCK = (
    _PATH
    + """
now() { read -r up _ </proc/uptime; up=${up%%.*}; }
set_anew() { now; read -r ttl <"$file.ttl"; end=$((up + ttl)); }
file=$1
echo "$2" >"$file.ttl" || exit 1
trap 'set_anew; kill $!' USR1
trap 'exit 0' TERM
set_anew
echo $$ >"$file"
exec </dev/null >/dev/null 2>&1
while now; [ "$up" -lt "$end" ]; do sleep $((end - up)) & wait $!; done
"""
)

_SET = _PATH + 'echo "$2" >"$1.ttl" && kill -USR1 "$(cat "$1")" && echo set'


def clock(ttl_sec: float) -> tuple[str, ...]:
    """The entrypoint's argv."""
    return ("/bin/sh", "-c", _CLOCK, "harness", _FILE, str(math.ceil(ttl_sec)))


def set_clock(ttl_sec: float) -> Request:
    """Set the clock to so many seconds from now; replies "set"."""
    return Request(argv=("/bin/sh", "-c", _SET, "harness", _FILE, str(math.ceil(ttl_sec))), env={}, limit=4096)
