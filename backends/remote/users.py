"""Running a request as another user, where the SDK runs everything as the sandbox's own, which is root.

setpriv (util-linux) knows names and numbers and adds no process; `su` is what images have that lack it, busybox's
too. Both keep the environment, but for HOME, which becomes the user's own unless the request names one.
"""

from __future__ import annotations

import dataclasses

from backends.frame import Request

# A name without an entry in the user database, or an image that has neither tool, is said on stderr: nothing ran.
_SWITCH = """
PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
u=$1 home=$2
shift 2
[ "$home" ] || while IFS=: read -r name _ id _ _ place _; do
  case $u in "$name" | "$id") HOME=$place && export HOME && break ;; esac
done </etc/passwd
if g=$(id -g "$u" 2>/dev/null); then groups=--init-groups; else g=$u groups=--clear-groups; fi
setpriv --reuid "$u" --regid "$g" "$groups" true 2>/dev/null && exec setpriv --reuid "$u" --regid "$g" "$groups" "$@"
exec su -m -s /bin/sh "$u" -c 'exec "$0" "$@"' "$@"
"""


def as_user(request: Request, user: str | None) -> Request:
    """`request` run by root as `user`, a name or a number; None and root leave it as it is."""
    if user in (None, "root", "0"):
        return request
    assert user is not None
    argv = ("/bin/sh", "-c", _SWITCH, "harness", user, request.env.get("HOME", ""), *request.argv)
    return dataclasses.replace(request, argv=argv)
