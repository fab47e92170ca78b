"""The files of a task's folder, listed without following links. The folder is somebody else's: nothing leaves it."""

from __future__ import annotations

import graphlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from harness.errors import TaskInvalid

IGNORED = frozenset({".git", "__pycache__", ".DS_Store"})
"""Names that are no part of a task's identity wherever they appear."""

TEXT_LIMIT = 1 << 20
"""Bytes that task.toml, an instruction or a script may have."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: its name relative to the folder, its executable bit, and where it points if it is a link."""

    name: str
    executable: bool
    target: str | None = None


def list_tree(root: Path) -> list[Entry]:
    """Every file and link below `root` that is not `IGNORED`, sorted by name.

    Raises TaskInvalid for a link that leaves the folder, links that form a cycle, and anything but files, folders
    and links (opening a pipe would block for ever).
    """
    real_root = os.path.realpath(root)
    entries: list[Entry] = []
    inner_folders: dict[str, set[str]] = {}
    has_folder_links = False
    pending = [("", True)]
    while pending:
        folder, counts = pending.pop()
        inner = inner_folders.setdefault(folder, set())
        with os.scandir(f"{real_root}/{folder}") as items:
            for item in items:
                name = f"{folder}{item.name}"
                if name == ".git":
                    continue
                # What is ignored may still be uploaded with its folder, so links in it are checked all the same.
                part = counts and item.name not in IGNORED
                if item.is_symlink():
                    target = _inside(item.path, name, real_root)
                    if part:
                        entries.append(Entry(name, executable=False, target=str(Path(item.path).readlink())))
                    if os.path.isdir(target):  # noqa: PTH112 - one stat; Path would double the cost of a walk
                        inner.add(_relative(target, real_root))
                        has_folder_links = True
                elif item.is_dir():
                    inner.add(f"{name}/")
                    pending.append((f"{name}/", part))
                elif not item.is_file():
                    raise TaskInvalid(f"{show_path(name)} is neither a file nor a folder")
                elif part:
                    entries.append(Entry(name, executable=bool(item.stat().st_mode & 0o111)))
    if has_folder_links:
        try:
            graphlib.TopologicalSorter(inner_folders).prepare()
        except graphlib.CycleError as error:
            raise TaskInvalid(f"links form a cycle at {show_path(error.args[1][0] or './')}") from None
    return sorted(entries, key=lambda entry: os.fsencode(entry.name))


def read_text(root: Path, name: str) -> str:
    """The text of one file below `root`.

    Raises TaskInvalid where it is missing, not a file, larger than `TEXT_LIMIT`, not UTF-8, or holds NUL bytes.
    """
    try:
        descriptor = os.open(root / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise TaskInvalid(f"{show_path(name)} is missing") from None
    except OSError as error:
        raise TaskInvalid(f"{show_path(name)} cannot be read: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise TaskInvalid(f"{show_path(name)} is not a file")
        data = _read(descriptor, TEXT_LIMIT + 1)
    finally:
        os.close(descriptor)
    if len(data) > TEXT_LIMIT:
        raise TaskInvalid(f"{show_path(name)} is larger than {TEXT_LIMIT >> 20} MiB")
    if b"\0" in data:
        raise TaskInvalid(f"{show_path(name)} contains NUL bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TaskInvalid(f"{show_path(name)} is not UTF-8 at byte {error.start}") from None


def show_path(name: str) -> str:
    """A file name as one printable line, whatever bytes it is made of."""
    text = os.fsencode(name).decode("utf-8", "replace")
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _inside(path: str, name: str, real_root: str) -> str:
    try:
        target = os.path.realpath(path, strict=True)
    except FileNotFoundError:
        target = os.path.realpath(path)
    except OSError:
        raise TaskInvalid(f"the link {show_path(name)} points at itself") from None
    if target != real_root and not target.startswith(f"{real_root}/"):
        raise TaskInvalid(f"the link {show_path(name)} leaves the task's folder")
    return target


def _relative(target: str, real_root: str) -> str:
    inner = target[len(real_root) + 1 :]
    return f"{inner}/" if inner else ""


def _read(descriptor: int, limit: int) -> bytes:
    data = b""
    while len(data) < limit and (piece := os.read(descriptor, limit - len(data))):
        data += piece
    return data
