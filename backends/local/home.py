"""A sandbox's folder on the host: its root tree, the uid that owns it, and the state file that survives a crash."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from backends.errors import SandboxStartError, SandboxUnsupported
from backends.lifecycle import process_start_ticks
from backends.local import namespaces
from backends.local.tags import kill_tagged

_PREFIX = "harness-local-"
_ID = re.compile(r"[0-9a-f]{12}")
_TAGS_PER_SANDBOX = 1 << 20
STANDARD = ("/app", "/logs", "/tests", "/solution", "/root", "/home", "/run", "/opt", "/srv", "/mnt")
"""Directories that every sandbox has, beside those that its spec names."""
_OPEN = ("/tmp", "/var/tmp")  # noqa: S108 - paths inside the sandbox
_MOUNTED = ("/proc", "/dev", "/etc", "/usr")
_SOURCES = "/usr/src"
_USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
_ETC = {
    "passwd": _USERS,
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "hostname": "sandbox\n",
    "hosts": "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n",
    "resolv.conf": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Where a sandbox lives. `uid` owns its tree on the host, None meaning the caller; `first_tag` starts its tags."""

    id: str
    uid: int | None
    created_at: float
    first_tag: int
    labels: Mapping[str, str] = field(default_factory=dict)
    pid: int | None = None
    pid_ticks: str | None = None
    made: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return _parent() / f"{_PREFIX}{self.id}"

    @property
    def root(self) -> Path:
        """What the sandbox sees as `/`."""
        return self.folder / "root"

    @property
    def end_tag(self) -> int:
        return self.first_tag + _TAGS_PER_SANDBOX

    def save(self) -> None:
        """Write the state file, readable by its owner only."""
        draft = self.folder / "state.new"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(handle, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor, not a path
            json.dump(asdict(self) | {"labels": dict(self.labels)}, file)
        draft.replace(self.folder / "state.json")


def new_home(labels: Mapping[str, str], *, created_at: float) -> Home:
    """Make an empty folder, with an owner of its own where the caller is root."""
    home = Home(
        id=secrets.token_hex(6),
        uid=_draw_uid() if os.geteuid() == 0 else None,
        created_at=created_at,
        first_tag=(secrets.randbits(30) + (1 << 30)) * _TAGS_PER_SANDBOX,
        labels=labels,
    )
    home.folder.mkdir(mode=0o700)
    try:
        home.save()
        if home.uid is not None:
            # Others may pass through, to reach a root that only its owner may enter.
            home.folder.chmod(0o711)
    except OSError:
        remove_tree(home.folder)
        raise
    return home


def fill(home: Home, directories: Iterable[str]) -> Path | None:
    """Make the root tree with `directories`; the folder to show as /usr/src, where one of them lies in it.

    Raises SandboxUnsupported for a directory that lies in what the host shows read-only.
    """
    home.root.mkdir(mode=0o700)
    made = [home.root]
    sources = home.folder / "src"

    def directory(path: str, mode: int = 0o755) -> None:
        place = home.root
        if path == _SOURCES or path.startswith(_SOURCES + "/"):
            place, path = sources, path.removeprefix(_SOURCES)
            if not sources.is_dir():
                sources.mkdir()
                made.append(sources)
        for part in path.split("/"):
            if part:
                place /= part
                with suppress(FileExistsError):
                    os.mkdir(place)  # noqa: PTH102 - one call
                    made.append(place)
        os.chmod(place, mode)  # noqa: PTH101

    for path in _MOUNTED:
        directory(path)
    for path in STANDARD:
        directory(path)
    for path in _OPEN:
        directory(path, 0o1777)
    for path in directories:
        _check_place(path)
        directory(path)
    for name, target in namespaces.merged_links():
        (home.root / name).symlink_to(target)
        made.append(home.root / name)
    for name, text in _ETC.items():
        (home.root / "etc" / name).write_text(text)
        made.append(home.root / "etc" / name)
    if home.uid is not None:
        for entry in made:
            os.chown(entry, home.uid, home.uid, follow_symlinks=False)
    if not sources.is_dir():
        return None
    if not Path(_SOURCES).is_dir():
        raise SandboxUnsupported(f"{_SOURCES} does not exist on this host; use `--backend docker`", backend="local")
    return sources


def restore(home: Home) -> None:
    """Give the root its mode and its links of the host back: commands of ours are started through them.

    What a command put in a link's place could else stand in for the shell, or for the program loader, of the verifier.
    It is moved aside and never looked into, so that what still runs can win a race for nothing but its own tree.
    """
    home.root.chmod(0o700)
    for name, target in namespaces.merged_links():
        link = home.root / name
        with suppress(FileNotFoundError, FileExistsError):
            if link.is_symlink() and str(link.readlink()) == target:
                continue
            if os.path.lexists(link):
                link.rename(home.root / f".{name}.{secrets.token_hex(8)}")
            link.symlink_to(target)
            if home.uid is not None:
                os.chown(link, home.uid, home.uid, follow_symlinks=False)


def _check_place(path: str) -> None:
    if not path.startswith("/") or ".." in Path(path).parts:
        raise SandboxUnsupported(f"not an absolute directory: {path!r}", backend="local")
    if path == _SOURCES or path.startswith(_SOURCES + "/"):
        return
    fixed = (*namespaces.shown_from_host(), *(f"/{name}" for name, _ in namespaces.merged_links()), "/proc", "/dev")
    for top in fixed:
        if path == top or path.startswith(top + "/"):
            raise SandboxUnsupported(
                f"{path} would have to be writable, and the local backend shows the host's {top} read-only; "
                "use `--backend docker`",
                backend="local",
            )


def homes() -> Iterator[Home]:
    """The sandboxes on this machine that the caller owns, dead ones that left a folder included."""
    for folder in _parent().glob(f"{_PREFIX}*"):
        found = find(folder.name.removeprefix(_PREFIX))
        if found is not None:
            yield found


def find(sandbox_id: str) -> Home | None:
    """The sandbox called `sandbox_id`, if the caller owns its folder."""
    if not _ID.fullmatch(sandbox_id):
        return None
    folder = _parent() / f"{_PREFIX}{sandbox_id}"
    try:
        status = folder.lstat()
        if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
            return None
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        return Home(**state | {"made": tuple(state["made"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def destroy(home: Home) -> None:
    """Kill what lives in a sandbox and remove what it left. Blocks; idempotent."""
    if home.pid is not None and home.pid_ticks is not None:
        with suppress(ProcessLookupError):
            pidfd = os.pidfd_open(home.pid)
            try:
                if process_start_ticks(home.pid) == home.pid_ticks:
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            finally:
                os.close(pidfd)
    if home.made or home.pid is None:
        kill_tagged(home.first_tag, home.end_tag)
    # The state goes last, with the folder: whoever is killed before that leaves what can be found and ended again.
    for path in (home.root, home.folder / "src", *map(Path, home.made)):
        remove_tree(path)
    remove_tree(home.folder)


def remove_tree(folder: Path) -> None:
    """Remove a folder whatever its modes, depth and names are. Links in it are not followed."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        # A hostile tree: folders without permissions, or nested deeper than Python recurses.
        for command in (["chmod", "-R", "u+rwX", "--", str(folder)], ["rm", "-rf", "--", str(folder)]):
            subprocess.run(command, check=False, capture_output=True)  # noqa: S603 - our own fixed arguments


def _draw_uid() -> int:
    """A uid that nobody has: from the upper half of those that exist here, and not one of the host's accounts."""
    ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    top = max(inside + count for inside, _, count in ranges)
    low, high = (1 << 30, 1 << 31) if top >= 1 << 31 else (20_000, min(top, 60_000))
    if high - low < 1000:
        raise SandboxStartError("root of a namespace with too few uids cannot start local sandboxes", backend="local")
    return low + secrets.randbelow(high - low)


def _parent() -> Path:
    """Where the folders lie: the temporary directory, or one that another uid can reach as well."""
    return _reachable(tempfile.gettempdir())


@cache
def _reachable(temporary: str) -> Path:
    for candidate in (Path(temporary), Path("/var/tmp"), Path("/tmp")):  # noqa: S108
        resolved = candidate.resolve()
        if os.geteuid() != 0 or all(part.stat().st_mode & 0o001 for part in (resolved, *resolved.parents)):
            return resolved
    raise SandboxStartError("no temporary directory that an unprivileged user can reach; set TMPDIR", backend="local")
