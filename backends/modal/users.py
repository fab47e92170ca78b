"""Running a request as another user, where the SDK runs everything as the container's own.

Modal has no user per exec. Its containers run as root, so root hands over: setpriv (util-linux) knows names and
numbers and adds no process; `su` is what images have that lack it, busybox's too. Both keep the environment.
"""

from __future__ import annotations

from collections.abc import Sequence

# Who it is already is told by /proc, so that the usual case starts no process. What fails says so on stderr: then
# nothing ran, and no frame is found in the reply.
_SWITCH = """
PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
u=$1
shift
while read -r k own x; do [ "$k" = Uid: ] && break; done </proc/self/status
case $u in
  root) n=0 ;;
  *[!0-9]*) n=$(id -u "$u") || exit 1 ;;
  *) n=$u ;;
esac
[ "$n" = "$own" ] && exec "$@"
if g=$(id -g "$u" 2>/dev/null); then groups=--init-groups; else g=$u groups=--clear-groups; fi
setpriv --reuid "$u" --regid "$g" "$groups" true 2>/dev/null && exec setpriv --reuid "$u" --regid "$g" "$groups" "$@"
exec su -m -s /bin/sh "$u" -c 'exec "$0" "$@"' "$@"
"""


def as_user(argv: Sequence[str], user: str | None) -> tuple[str, ...]:
    """`argv` run as `user`, a name or a number; None leaves it as it is."""
    if user is None:
        return tuple(argv)
    return ("/bin/sh", "-c", _SWITCH, "harness", user, *argv)
