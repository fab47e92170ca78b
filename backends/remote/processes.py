"""Ending all that commands left behind in a sandbox that is also home to its provider's daemon.

`kill -9 -1` would end the daemon and with it the sandbox. Every other mark of a command can be shed: its environment
(`env -i`), its parent (a double fork), its session (`setsid`). What cannot be shed is having started after us. So:
when a sandbox starts, before any command has run, its processes are noted by pid and start time. Later everything is
killed but

- those noted, which are the provider's;
- pid 1 and the kernel's own threads;
- whoever carries this request's token in its environment, their children and their ancestors: the killer itself, the
  shell and filters that the provider put around it, and the daemon, also if it has been restarted since.

The list lives with the harness, so that nobody inside can add to it.
"""

from __future__ import annotations

import secrets

from backends.frame import Request

_READ = """
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin${PATH:+:$PATH}
look() { # pid, parent, flags, state and start of the process whose stat file is $1
  read -r pid rest <"$1" || return
  s=${rest##*) }
  set -- $s
  state=$1 parent=$2 flags=$7
  shift 19
  start=$1
} 2>/dev/null
"""

SNAPSHOT = (
    _READ
    + """
for f in /proc/[0-9]*/stat; do look "$f" && echo "$pid:$start"; done
"""
)
"""Shell that lists every process as `pid:start`, one a line."""

_KILL = (
    _READ
    + """
spared=" $HX_SPARED " own=" $$ "
p=$$
while look "/proc/$p/stat" && [ "$parent" -gt 1 ]; do p=$parent own="$own$p "; done
i=0
while [ $i -lt 100 ]; do
  mine=" $(LC_ALL=C grep -lsF -e "$HX_TOKEN" /proc/[0-9]*/environ | tr '\\n' ' ')"
  found=
  for f in /proc/[0-9]*/stat; do
    look "$f" || continue
    case $state in [ZX]) continue ;; esac
    case $own in *" $pid "*) continue ;; esac
    case $spared in *" $pid:$start "*) continue ;; esac
    case $mine in *" /proc/$pid/environ "* | *" /proc/$parent/environ "*) continue ;; esac
    [ "$pid" = 1 ] || [ $((flags & 2097152)) -ne 0 ] || found="$found $pid"
  done
  [ "$found" ] || break
  kill -9 $found
  i=$((i + 1))
done 2>/dev/null
[ "$found" ] || echo done
"""
)

_LIMIT = 1 << 20


def kill_all(spared: str) -> Request:
    """Kill all but `spared` (as SNAPSHOT lists them) and what belongs to this request; replies "done"."""
    env = {"HX_RUN": _KILL, "HX_SPARED": " ".join(spared.split()), "HX_TOKEN": secrets.token_hex(16)}
    return Request(argv=("/bin/sh", "-c", 'eval "$HX_RUN"'), env=env, limit=_LIMIT)
