"""Bringing back what the sandbox leaves: logs and artifacts, all of it hostile, none of it replacing a file of ours."""

from __future__ import annotations

import posixpath
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from backends.errors import SandboxError
from backends.protocol import SandboxBackendProtocol
from harness.failures import NO_SPACE
from harness.store.files import to_json, write_atomic
from harness.store.layout import TrialPaths
from harness.task.model import Artifact
from harness.trial.scratch import Scratch

LOGS = "/logs"
_RESERVED = frozenset({"trajectory.json", "rollout.bin"})
_VERDICT = frozenset({"reward.txt", "reward.json", "status.json"})


async def collect_logs(
    sandbox: SandboxBackendProtocol,
    paths: TrialPaths,
    scratch: Scratch,
    *,
    step: str | None,
    max_bytes: int = 1 << 30,
) -> list[str]:
    """Download /logs, but for the verdict, into the trial's folder; return the names that were dropped."""
    dropped: list[str] = []
    with scratch.folder() as logs:
        try:
            names = await sandbox.download(LOGS, logs, max_bytes=max_bytes)
            dropped += [f"{LOGS}/{posixpath.normpath(name)}" for name in names]
        except (FileNotFoundError, NotADirectoryError):
            dropped.append(f"{LOGS} (missing)")
        dropped += _adopt(logs / "agent", paths.agent(step), reserved=_RESERVED)
        _adopt(logs / "verifier", paths.verifier(step), reserved=_VERDICT)
        dropped += _adopt(logs / "artifacts", paths.artifacts(step) / "logs" / "artifacts", reserved=frozenset())
    return dropped


def keep_verdict(paths: TrialPaths, step: str | None, files: Mapping[str, bytes]) -> None:
    """Write what the verifier's shell printed. It counts, not what lies in the sandbox by now."""
    folder = paths.verifier(step)
    if files:
        folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        if name in _VERDICT or not path.exists():
            path.write_bytes(content)


async def collect_artifacts(
    sandbox: SandboxBackendProtocol,
    paths: TrialPaths,
    artifacts: Sequence[Artifact],
    *,
    step: str | None,
    max_bytes: int = 1 << 30,
) -> list[str]:
    """Download what the task declares, with a manifest of how that went; return the names that were dropped."""
    dropped: list[str] = []
    folder = paths.artifacts(step)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = [_entry("/logs/artifacts", "artifacts/logs/artifacts", "directory", "ok")]
    for artifact in artifacts:
        manifest.append(await _fetch(sandbox, artifact, folder, dropped, max_bytes))
    write_atomic(folder / "manifest.json", to_json(manifest), durable=False)
    return dropped


def _adopt(source: Path, target: Path, *, reserved: frozenset[str]) -> list[str]:
    """Move a folder's entries to where they belong; what would replace a file of ours is dropped and named."""
    if not source.is_dir() or source.is_symlink():
        return []
    dropped = []
    entries = sorted(source.iterdir())
    if entries:
        target.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        if entry.name in reserved or (target / entry.name).exists():
            dropped.append(f"{LOGS}/{source.name}/{entry.name} (reserved name)")
            continue
        shutil.move(entry, target / entry.name)
    return dropped


async def _fetch(
    sandbox: SandboxBackendProtocol, artifact: Artifact, folder: Path, dropped: list[str], max_bytes: int
) -> dict[str, Any]:
    target = folder / artifact.destination
    kind = "file"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        dropped += await sandbox.download(artifact.source, target, max_bytes=max_bytes)
        kind = "directory" if target.is_dir() else "file"
        status = "ok"
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise
        status = "failed"
    except SandboxError as error:
        # Of no special class: what the sandbox sent is too large or damaged, and that is its agent's doing.
        if type(error) is not SandboxError or not await sandbox.is_alive():
            raise
        status = "failed"
    _exclude(target, artifact.exclude)
    return _entry(artifact.source, f"artifacts/{artifact.destination}", kind, status, list(artifact.exclude))


def _exclude(folder: Path, patterns: tuple[str, ...]) -> None:
    if not folder.is_dir():
        return
    for pattern in patterns:
        for path in folder.rglob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _entry(source: str, destination: str, kind: str, status: str, exclude: list[str] | None = None) -> dict[str, Any]:
    return {
        "source": source,
        "destination": destination,
        "type": kind,
        "status": status,
        "service": None,
        "exclude": exclude or [],
    }
