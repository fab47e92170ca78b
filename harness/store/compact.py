"""Compressing the bulk of finished trials in place: trajectories and logs. Every reader here opens either form.

`config.json`, `result.json`, the reward and `rollout.bin` (compressed from the start) stay as they are. A file is
replaced by its compressed form only after that form is on the disk and was read back; whoever is killed in between
leaves both, and the next compaction goes on.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import packed
from harness.store.files import remove_drafts, write_atomic
from harness.store.layout import TrialPaths

_LOGS = (".txt", ".log", ".json", ".jsonl", ".out", ".err")
_KEPT = frozenset({"reward.txt", "reward.json", "rollout.bin"})
MIN_BYTES = 4096
"""A smaller file takes one block of the disk either way."""


@dataclass(slots=True)
class Compacted:
    """Files that were compressed, and their bytes before and after."""

    files: int = 0
    before: int = 0
    after: int = 0


def compact_trial(paths: TrialPaths, done: Compacted) -> None:
    """Compress a trial's bulk. One without a record is left alone: it may still run. Raises OSError and UsageError."""
    if not paths.result.is_file():
        return
    for path in _bulk(paths):
        before, after = _compact(path)
        if after:
            done.files, done.before, done.after = done.files + 1, done.before + before, done.after + after


def _bulk(paths: TrialPaths) -> Iterator[Path]:
    """The files worth it: the agent's and the verifier's, and the trial's own log. Artifacts are what was asked for."""
    yield from _worth_it([paths.log])
    for folder in (paths.root, *sorted(paths.root.glob("steps/*"))):
        for name in ("agent", "verifier"):
            if (folder / name).is_dir() and not (folder / name).is_symlink():
                for parent, _, names in os.walk(folder / name):
                    yield from _worth_it([Path(parent, each) for each in sorted(names)])


def _worth_it(files: list[Path]) -> Iterator[Path]:
    for path in files:
        if path.suffix in _LOGS and path.name not in _KEPT and not path.name.startswith("."):
            try:
                found = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode) and MIN_BYTES <= found.st_size <= packed.MAX_BYTES:
                yield path


def _compact(path: Path) -> tuple[int, int]:
    """The file's size before and after; (size, 0) where compressing it gains nothing."""
    data = path.read_bytes()
    small = packed.pack(data)
    if len(small) >= len(data):
        return len(data), 0
    target = packed.packed_path(path)
    remove_drafts(target.parent, target.name)
    write_atomic(target, small)
    if packed.unpack(target.read_bytes()) != data:
        target.unlink()
        raise OSError(f"{target} did not read back as it was written")
    path.unlink()
    return len(data), len(small)
