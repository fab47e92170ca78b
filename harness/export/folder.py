"""The folder of an export: it appears whole or not at all, and only ever replaces an export."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.store.files import read_json, to_json, write_atomic
from harness.store.held import locked

MANIFEST = "export.json"
FORMAT = "harness-export"

_ASIDE = ".draft"
"""Ends the name of the hidden folder next to an export in which it is made, and the one that it replaces is kept."""
_NEW, _OLD, _LOCK = "new", "old", ".lock"


@contextmanager
def export_folder(target: Path) -> Iterator[Path]:
    """A draft folder that becomes `target` when the block ends without an error, and is removed otherwise.

    Raises UsageError, before anything is done, if `target` is there and is no export.
    """
    _sweep(target)
    _require_replaceable(target)
    aside = target.with_name(f".{target.name}.{os.getpid()}{_ASIDE}")
    try:
        aside.mkdir(parents=True)
        with locked(aside / _LOCK):
            draft = aside / _NEW
            draft.mkdir()
            yield draft
            if target.exists():
                target.rename(aside / _OLD)
            draft.rename(target)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        _end(aside, target)


def _sweep(target: Path) -> None:
    """End what exports to `target` left that were killed: nobody holds the lock on theirs."""
    for aside in target.parent.glob(f".{glob.escape(target.name)}.*{_ASIDE}"):
        with suppress(OSError), locked(aside / _LOCK):
            _end(aside, target)


def _end(aside: Path, target: Path) -> None:
    """Remove what lies aside; the export that was to be replaced goes back where nothing has taken its place."""
    if not target.exists():
        with suppress(OSError):
            (aside / _OLD).rename(target)
    shutil.rmtree(aside, ignore_errors=True)


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
