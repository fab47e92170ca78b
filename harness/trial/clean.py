"""Before the agent starts: nothing of the tests or the solution may lie in the sandbox.

The verifier's and the oracle's own places (/tests, /solution, /logs/verifier) are emptied. Elsewhere a file is removed
only if it is a leaked copy: it lies where images are known to leave such copies, under the name that it has in the
task, with the very same content. A repository's own `tests/` folder is the task's material and stays.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from backends.errors import SandboxError
from backends.protocol import SandboxBackendProtocol
from harness.task.model import Task
from harness.task.sandbox import LOG_DIRECTORIES
from harness.trial.shell import IS_EMPTY

_MAX_FILES = 400
_MAX_FILE_BYTES = 4 << 20
_ROOTS = ("", "/app", "/root", "/workspace", "/testbed", "/tmp", "/home")  # noqa: S108 – places inside the sandbox
_BARE_NAMES = {"test.sh", "run-tests.sh", "solve.sh", "solution.sh"}
"""Scripts that are also looked for directly in a root, outside a `tests` or `solution` folder."""


async def clean(sandbox: SandboxBackendProtocol, task: Task, *, user: str | None, timeout: float) -> list[str]:
    """Empty the harness's own places and remove leaked copies; return the paths of those.

    Where the task names users for its agent, the log folders are opened for them.
    """
    script = _script(sandbox.workdir, leak_candidates(task, sandbox.workdir))
    if any(step.agent_user for step in task.steps):
        script = f"chmod 777 {' '.join(LOG_DIRECTORIES)} || exit 1\n{script}"
    response = await sandbox.execute("sh -s", stdin=script.encode(), timeout=timeout, cwd="/", user=user)
    if response.exit_code != 0:
        raise SandboxError(
            f"could not clean the sandbox before the agent: exit {response.exit_code}: {response.output[-500:]}",
            backend=sandbox.backend,
            operation="clean",
            sandbox_id=sandbox.id,
        )
    return [line for line in response.stdout.decode("utf-8", "replace").splitlines() if line]


def leak_candidates(task: Task, workdir: str) -> list[tuple[str, str]]:
    """Where a copy of a test or solution file would lie, and the SHA-256 it would have."""
    folders: dict[Path, str] = {}
    for step in task.steps:
        folders.update(dict.fromkeys(step.tests, "tests"))
        if step.solution_dir is not None:
            folders[step.solution_dir] = "solution"
    return _candidates(task.digest, tuple(folders.items()), workdir.rstrip("/"))


@lru_cache(maxsize=1024)
def _candidates(version: str, folders: tuple[tuple[Path, str], ...], workdir: str) -> list[tuple[str, str]]:
    """Remembered per task and version, since its attempts share them."""
    roots = list(dict.fromkeys([workdir, *_ROOTS]))
    candidates: dict[str, str] = {}
    for kind, relative, digest in _secrets(folders):
        names = [f"{kind}/{relative}"]
        if relative in _BARE_NAMES:
            names.append(relative)
        for root in roots:
            for name in names:
                candidates[f"{root}/{name}"] = digest
    return sorted(candidates.items())


def _secrets(folders: tuple[tuple[Path, str], ...]) -> Iterator[tuple[str, str, str]]:
    seen = 0
    for folder, kind in folders:
        for path in _files(folder):
            seen += 1
            if seen > _MAX_FILES:
                return
            yield kind, path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()


def _files(folder: Path) -> Iterable[Path]:
    if not folder.is_dir():
        return
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and 0 < path.stat().st_size <= _MAX_FILE_BYTES:
            yield path


def _script(workdir: str, candidates: list[tuple[str, str]]) -> str:
    lines = [
        "set -u",
        IS_EMPTY,
        "for d in /tests /solution; do",
        '  if [ ! -d "$d" ] || [ -L "$d" ]; then rm -rf "$d"; elif ! is_empty "$d"; then',
        '    rm -rf "$d"/* "$d"/.[!.]* "$d"/..?*; fi',
        "done",
        "is_empty /logs/verifier || rm -rf /logs/verifier/* /logs/verifier/.[!.]* 2>/dev/null",
        "gone() {",
        '  [ -f "$1" ] || return 0',
        '  set -- "$1" "$2" "$(sha256sum < "$1" 2>/dev/null)"',
        '  [ "${3%% *}" = "$2" ] || return 0',
        '  rm -f "$1" && echo "$1"',
        '  folder=${1%/*}; rm -rf "$folder/__pycache__" "$folder/.pytest_cache"',
        '  rmdir "$folder" 2>/dev/null || :',
        "}",
    ]
    lines += [f"gone {shlex.quote(path)} {digest}" for path, digest in candidates]
    lines.append(f"[ -d {shlex.quote(workdir)} ] || mkdir -p {shlex.quote(workdir)}")
    lines.append("exit 0")
    return "\n".join(lines) + "\n"
