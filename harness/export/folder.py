"""The folder of an export: it appears whole or not at all, and only ever replaces an export."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.store.files import read_json, to_json, write_atomic

MANIFEST = "export.json"
FORMAT = "harness-export"


@contextmanager
def export_folder(target: Path) -> Iterator[Path]:
    """A draft folder that becomes `target` when the block ends without an error, and is removed otherwise.

    Raises UsageError, before anything is done, if `target` is there and is no export.
    """
    _require_replaceable(target)
    draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    try:
        draft.mkdir(parents=True)
        yield draft
        if target.exists():
            target.rename(old)
        draft.rename(target)
    except OSError as error:
        if old.exists() and not target.exists():
            old.rename(target)
        raise UsageError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _require_replaceable(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise UsageError(f"{target} is not a folder; choose another one with -o")
    if target.is_dir() and any(target.iterdir()) and manifest_of(target) is None:
        raise UsageError(f"{target} holds something that is no export; choose another folder with -o")


def write_manifest(folder: Path, document: dict[str, Any]) -> None:
    """Say what an export is."""
    write_atomic(folder / MANIFEST, to_json({"format": FORMAT, **document}))


def manifest_of(folder: Path) -> dict[str, Any] | None:
    """What an export says that it is; None for a folder that is none."""
    try:
        document = read_json(folder / MANIFEST)
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and document.get("format") == FORMAT else None
