"""Bringing back what the sandbox leaves: logs and artifacts, all of it hostile, none of it replacing a file of ours."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.protocol import SandboxBackendProtocol
from harness.store.files import to_json, write_atomic
from harness.store.layout import TrialPaths
from harness.task.model import Artifact

LOGS = "/logs"
_RESERVED = {"trajectory.json", "trajectory.jsonl"}


async def collect(
    sandbox: SandboxBackendProtocol,
    paths: TrialPaths,
    *,
    step: str | None,
    artifacts: tuple[Artifact, ...],
    verdict: Mapping[str, bytes],
    max_bytes: int = 1 << 30,
) -> list[str]:
    """Download /logs and the declared artifacts into the trial's folder; return the names that were dropped.

    The verdict's files are written from what the verifier's shell printed, never from what lies in the sandbox now.
    """
    dropped: list[str] = []
    with tempfile.TemporaryDirectory(prefix=".collect-", dir=paths.root) as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        try:
            dropped += [f"{LOGS}/{name}" for name in await sandbox.download(LOGS, logs, max_bytes=max_bytes)]
        except (FileNotFoundError, NotADirectoryError):
            dropped.append(f"{LOGS} (missing)")
        dropped += _adopt(logs / "agent", paths.agent(step), reserved=_RESERVED)
        dropped += _adopt(
            logs / "verifier", paths.verifier(step), reserved={"reward.txt", "reward.json", "status.json"}
        )
        dropped += _adopt(logs / "artifacts", paths.artifacts(step) / "logs" / "artifacts", reserved=set())
    for name, content in verdict.items():
        paths.verifier(step).mkdir(parents=True, exist_ok=True)
        write_atomic(paths.verifier(step) / name, content, durable=False)
    manifest: list[dict[str, Any]] = [_entry("/logs/artifacts", "artifacts/logs/artifacts", "directory", "ok")]
    for artifact in artifacts:
        manifest.append(await _fetch(sandbox, artifact, paths.artifacts(step), dropped, max_bytes))
    if artifacts or (paths.artifacts(step) / "logs").exists():
        paths.artifacts(step).mkdir(parents=True, exist_ok=True)
        write_atomic(paths.artifacts(step) / "manifest.json", to_json(manifest), durable=False)
    return dropped


def _adopt(source: Path, target: Path, *, reserved: set[str]) -> list[str]:
    """Move a folder's entries to where they belong; what would replace a file of ours is dropped and named."""
    if not source.is_dir() or source.is_symlink():
        return []
    dropped = []
    entries = sorted(source.iterdir())
    if entries:
        target.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        if entry.name in reserved or (target / entry.name).exists():
            if not (source.name == "verifier" and entry.name in reserved):
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
    except (OSError, ValueError):
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
