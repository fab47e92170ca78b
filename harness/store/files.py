"""Writing and reading the record's files: whole or not at all, strict JSON, and never a link followed."""

from __future__ import annotations

import glob
import json
import os
from pathlib import Path
from typing import Any

import pydantic_core

from harness import strict_json


def write_atomic(path: Path, data: str | bytes, *, durable: bool = True) -> None:
    """Replace `path` by `data` so that a reader, or a crash at any moment, sees the old file or the new one.

    `durable` also holds for a power cut: the content is on the disk before the name is.
    Raises OSError; then the old file is intact and no temporary file is left.
    """
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            view = memoryview(raw)
            while view:
                view = view[os.write(fd, view) :]
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def flush(path: Path) -> None:
    """Wait until a file's content is on the disk. A file that is not there is no matter."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_drafts(folder: Path, name: str | None = None) -> None:
    """Remove what `write_atomic` left in `folder` when its process was killed: all drafts, or those of one file.

    Nobody else may be writing there.
    """
    for path in folder.glob(".*.tmp" if name is None else f".{glob.escape(name)}.*.tmp"):
        path.unlink(missing_ok=True)


def to_json(value: Any) -> str:
    """Strict JSON, indented. Raises ValueError for NaN and infinities: the caller decides what they mean."""
    json.dumps(value, allow_nan=False)
    try:
        return pydantic_core.to_json(value, indent=2).decode() + "\n"
    except ValueError:  # a lone surrogate, which UTF-8 does not have
        return pydantic_core.to_json(strict_json.clean(value)[0], indent=2).decode() + "\n"


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def read_json(path: Path, *, max_bytes: int = 256 << 20) -> Any:
    """Parse a strict JSON file. Raises OSError, and ValueError for anything that is not JSON or is too large."""
    with path.open("rb") as file:
        raw = file.read(max_bytes + 1)
    if len(raw) > max_bytes:
        raise ValueError(f"{path.name} is larger than {max_bytes} bytes")
    try:
        return json.loads(raw, parse_constant=_reject_constant)
    except RecursionError as error:
        raise ValueError(f"{path.name} is nested too deeply") from error


def read_table(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an empty one where there is no file, or none that holds an object."""
    try:
        document = read_json(path)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
