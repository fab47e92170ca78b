"""The product as a user runs it: `harness` in a process of its own, its records, and what it left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


def command(*argv: str | Path) -> list[str]:
    """The command line of `harness` in this interpreter."""
    return [sys.executable, "-m", "harness.cli.main", *map(str, argv)]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment, in which the package of this checkout is found from any folder."""
    return {**os.environ, "PYTHONPATH": str(REPO), "COLUMNS": "120", **(extra or {})}


def harness(
    *argv: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 150
) -> Done:
    """Run `harness` to its end."""
    done = subprocess.run(
        command(*argv), cwd=cwd, env=environment(env), capture_output=True, text=True, timeout=timeout, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


def start(*argv: str | Path, log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start `harness` in a process group of its own, its output in `log`."""
    with log.open("ab") as out:
        return subprocess.Popen(
            command(*argv), env=environment(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=0
        )


def records(job: Path) -> dict[str, dict[str, Any]]:
    """Every execution's record by its folder's name. Fails for one that is not whole."""
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(job.glob("*/result.json"))}


def by_task(job: Path) -> dict[str, dict[str, Any]]:
    """The records of a job in which every task ran once, by task."""
    found = records(job)
    named = {record["task_name"]: record for record in found.values()}
    assert len(named) == len(found), "a task ran more than once"
    return named


def docker(*argv: str, host: str | None = None, timeout: float = 60) -> str:
    """Ask the engine."""
    at = ["--host", host] if host else []
    done = subprocess.run(["docker", *at, *argv], capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def job_id(job: Path) -> str:
    """What a job's sandboxes are labelled with."""
    return str(json.loads((job / "lock.json").read_text())["job_id"])


def sandboxes_left(job: Path, backend: str, host: str | None = None) -> list[str]:
    """The sandboxes of a job that are still there, local or docker."""
    identity = job_id(job)
    if backend == "docker":
        return docker("ps", "--all", "--quiet", "--filter", f"label=harness.job={identity}", host=host).split()
    folders = {Path(tempfile.gettempdir()), Path("/var/tmp"), Path("/tmp")}
    found = []
    for state in {state for folder in folders for state in folder.glob("harness-local-*/state.json")}:
        try:
            if identity in state.read_text():
                found.append(str(state.parent))
        except OSError:  # another job's, removed meanwhile
            continue
    return sorted(found)


def processes_with(mark: str) -> list[str]:
    """The command lines of this machine, those in containers included, that contain `mark`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if mark in line and int(path.parent.name) != os.getpid():
            found.append(line)
    return found


def scraps(job: Path) -> list[str]:
    """Temporary files and folders that a run left in its job."""
    return sorted(str(path.relative_to(job)) for path in [*job.rglob("*.tmp"), *job.glob(".scratch")])
