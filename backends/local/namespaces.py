"""How a namespace is made: the argument lists for bubblewrap and for unshare, and which of them works here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from backends.local import doorman

_PROBE_TIMEOUT_SEC = 10
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# What programs under /usr need of /etc; nothing that holds a key, a password or an account of the host.
_ETC = """
alternatives fonts java* ld.so.cache localtime mime.types nsswitch.conf os-release perl pki protocols python3* services
ssl terminfo timezone
"""

# Pid 1 waits for a `cat` that ends when the harness does, and so also reaps orphans. Whoever kills that `cat` from
# inside only makes it start again. A shell with -c would end on INT; the kernel shields pid 1 from all else.
_INIT = "trap '' INT; echo ready; exec 2>/dev/null; until cat >/dev/null; do :; done"

_UNSHARE_SETUP = r"""
set -e
root=$1 src=$2; shift 2
mount --bind "$root" "$root"
for path; do
  if [ -d "$path" ]; then mkdir -p "$root$path"; else mkdir -p "$root${path%/*}"; : >>"$root$path"; fi
  mount --rbind "$path" "$root$path"
  mount -o remount,bind,ro "$root$path" 2>/dev/null || mount -o remount,bind,ro,nosuid,nodev "$root$path"
done
[ -z "$src" ] || mount --bind "$src" "$root/usr/src"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t tmpfs -o mode=755,nosuid dev "$root/dev"
for node in null zero full random urandom tty; do
  : >"$root/dev/$node"
  mount --bind "/dev/$node" "$root/dev/$node"
done
mkdir -m 1777 "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
for n in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${n%:*}" "$root/dev/${n#*:}"; done
hostname sandbox 2>/dev/null || :
ip link set lo up 2>/dev/null || :
cd "$root"
pivot_root . .
umount -l .
cd /
exec setpriv --bounding-set=-all,+wake_alarm --inh-caps=-all --no-new-privs env -i sh -c "$INIT"
"""


_NOBODY = 65534
OLD_KERNEL = "the kernel is older than Linux 5.8, which first lets commands into a namespace by its pidfd"


class Isolation(StrEnum):
    """How sandboxes are kept apart from the host."""

    BWRAP = "bwrap"
    UNSHARE = "unshare"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a command may use: processes and threads in the whole sandbox, bytes of one file, of one process's data."""

    processes: int | None
    file_bytes: int
    data_bytes: int | None = None


@cache
def tool(name: str) -> str | None:
    """Where a program of the host lies, or None."""
    return shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")


def _tool(name: str) -> str:
    return tool(name) or name


@cache
def shown_from_host() -> tuple[str, ...]:
    """Host paths that every sandbox sees, read-only."""
    roots = [f"/{name}" for name in _MERGED if Path(f"/{name}").is_dir() and not Path(f"/{name}").is_symlink()]
    roots += [path for path in ("/usr", "/nix/store") if Path(path).is_dir()]
    found = [path for pattern in _ETC.split() for path in Path("/etc").glob(pattern) if path.exists()]
    return (*roots, *map(str, found))


@cache
def merged_links() -> tuple[tuple[str, str], ...]:
    """Links of the host's root folder, such as `/bin` to `usr/bin`."""
    return tuple((name, str(Path(f"/{name}").readlink())) for name in _MERGED if Path(f"/{name}").is_symlink())


def as_user(uid: int | None) -> list[str]:
    """Become the sandbox's uid on the host; None where the harness has no other uid to give."""
    if uid is None:
        return []
    return [_tool("setpriv"), f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


def start_argv(
    isolation: Isolation, root: Path, *, uid: int | None, network: bool, source_dir: Path | None, info_fd: int
) -> list[str]:
    """Start a namespace whose `/` is `root`; pid 1 prints "ready". `source_dir` is shown, writable, as /usr/src."""
    shown = [*shown_from_host(), *(["/etc/resolv.conf"] if network else [])]
    if isolation is Isolation.BWRAP:
        argv = [*as_user(uid), _tool("bwrap"), "--bind", str(root), "/"]
        for path in shown:
            argv += ["--ro-bind", os.path.realpath(path) if path == "/etc/resolv.conf" else path, path]
        if source_dir is not None:
            argv += ["--bind", str(source_dir), "/usr/src"]
        argv += ["--proc", "/proc", "--dev", "/dev", "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0"]
        argv += ["--share-net"] if network else []
        argv += ["--hostname", "sandbox", "--as-pid-1", "--die-with-parent", "--new-session", "--clearenv"]
        argv += ["--setenv", "PATH", "/usr/bin:/bin", "--cap-drop", "ALL", "--cap-add", "CAP_WAKE_ALARM"]
        return [*argv, "--chdir", "/", "--info-fd", str(info_fd), "sh", "-c", _INIT]
    argv = [*as_user(uid), _tool("setpriv"), "--pdeathsig", "KILL"]
    argv += [_tool("unshare"), "--user", "--map-root-user", "--mount", "--pid", "--ipc", "--uts", "--fork"]
    argv += ["--kill-child", "--propagation", "private"] + ([] if network else ["--net"])
    setup = _UNSHARE_SETUP.replace('"$INIT"', f"'{_INIT}'")
    return [*argv, "sh", "-c", setup, "sandbox", str(root), str(source_dir or ""), *shown]


_TRIALS = {
    Isolation.BWRAP: "--ro-bind / / --proc /proc --dev /dev --unshare-all --unshare-user --uid 0 --gid 0 --as-pid-1 "
    "--die-with-parent --new-session --cap-drop ALL --cap-add CAP_WAKE_ALARM",
    Isolation.UNSHARE: "--user --map-root-user --mount --pid --net --ipc --uts --fork --mount-proc",
}


@dataclass(frozen=True, slots=True)
class Probe:
    """The best isolation that works here, and why the better ones do not."""

    isolation: Isolation
    reasons: tuple[str, ...]


@cache
def probe(only: Isolation | None = None) -> Probe:
    """Try each way, or `only` one, once with `true`. Blocks for some twenty milliseconds."""
    if only is Isolation.NONE:
        return Probe(Isolation.NONE, ("it was asked for",))
    reasons = []
    needed = [name for name in ("setpriv", "tar") if tool(name) is None]
    if needed:
        return Probe(Isolation.NONE, (f"{', '.join(needed)} not found",))
    if not doorman.enters():
        return Probe(Isolation.NONE, (OLD_KERNEL,))
    for isolation, trial in _TRIALS.items():
        if only not in (None, isolation):
            continue
        binary = tool(isolation)
        if binary is None:
            reasons.append(f"{isolation} is not installed")
            continue
        argv = [*as_user(_NOBODY if os.geteuid() == 0 else None), binary, *trial.split(), "true"]
        message = _failure(argv)
        if message is None:
            return Probe(isolation, tuple(reasons))
        reasons.append(f"{isolation} fails: {message}")
    return Probe(Isolation.NONE, tuple(reasons))


def _failure(argv: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 - our own fixed arguments
            argv, capture_output=True, timeout=_PROBE_TIMEOUT_SEC, check=False, stdin=subprocess.DEVNULL, env={}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return done.stderr.decode("utf-8", "replace").strip().replace("\n", "; ") or f"exit code {done.returncode}"
