"""Trees in and out of sandboxes as tar: one packer and one extractor for every backend.

What is packed comes from the user's disk and must stay within the folder it was asked for. What is extracted comes
from a sandbox and is hostile: nothing is ever written through a link, because links are made last, and a link is
made only if it cannot lead out (no `..` after its first name, and not more of them than it has parents).
"""

from __future__ import annotations

import errno
import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from backends.errors import SandboxError

MAX_ENTRIES = 200_000
_CHUNK = 1 << 20
_HOST_TROUBLE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE}


class Readable(Protocol):
    """A binary source, read from start to end."""

    def read(self, size: int, /) -> bytes: ...


def pack(source: Path, out: IO[bytes], *, name: str | None = None) -> None:
    """Write `source` to `out` as tar: a folder's contents, or one file called `name` (its own name if None).

    Modes and times are kept, owners are not. Raises ValueError for a link that leaves `source` and for what is
    neither file, folder nor link; FileNotFoundError if `source` is missing.
    """
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        if source.is_symlink():
            _check_link(source, source.parent)
        if not source.is_dir():
            _add(tar, source.resolve(strict=True), name or source.name)
            return
        for path in _walk(source.resolve()):
            if path.is_symlink():
                _check_link(path, source.resolve())
            _add(tar, path, path.relative_to(source.resolve()).as_posix())


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)


def _check_link(link: Path, root: Path) -> None:
    target = link.readlink()
    # os.path.realpath, unlike Path.resolve, does not raise where links go in circles
    if target.is_absolute() or not Path(os.path.realpath(link)).is_relative_to(root.resolve()):
        raise ValueError(f"{link} is a link that leaves {root} (to {target}); put a copy of the file in its place")


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    status = path.lstat()
    info = tarfile.TarInfo(name)
    info.mode = stat.S_IMODE(status.st_mode) & 0o777
    info.mtime = int(status.st_mtime)
    if stat.S_ISLNK(status.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
    elif stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
    elif not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is neither a file, a folder nor a link")
    else:
        info.size = status.st_size
        with path.open("rb") as file:
            tar.addfile(info, file)
        return
    tar.addfile(info)


def unpack(
    archive: Readable, target: Path, *, max_bytes: int, root: str = ".", max_entries: int = MAX_ENTRIES
) -> list[str]:
    """Extract the archive's entry `root` as `target`: a file to that very path, a directory's contents into it.

    Returns the names of what was dropped: absolute names, `..`, links that could leave `target`, devices, FIFOs.
    What arrives belongs to the caller and is readable and writable to them. Raises SandboxError beyond `max_bytes`
    or `max_entries`, and for a damaged archive.
    """
    source = _Limited(archive, max_bytes)
    extraction = _Extraction(target, tuple(PurePosixPath(root).parts), max_bytes)
    try:
        with tarfile.open(fileobj=source, mode="r|") as tar:  # type: ignore[call-overload]
            for count, member in enumerate(tar):
                if count >= max_entries:
                    raise SandboxError(f"the download has more than {max_entries} entries", operation="download")
                source.allow_header()
                extraction.add(tar, member)
                tar.members = []  # or a long archive is held in memory
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise SandboxError(f"the sandbox sent a damaged archive: {error}", operation="download") from error
    extraction.link()
    return extraction.dropped


class _Limited:
    """Reads on while there is budget, so that no header makes tarfile swallow a flood."""

    def __init__(self, source: Readable, budget: int) -> None:
        self._source = source
        self._left = budget + (4 << 20)
        self._limit = budget

    def allow_header(self) -> None:
        self._left += 4096

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._limit)
        return data


class _Extraction:
    """One archive on its way to disk. While it runs, only directories and regular files are made."""

    def __init__(self, target: Path, root: tuple[str, ...], max_bytes: int) -> None:
        self.dropped: list[str] = []
        self._target = target
        self._root = root
        self._limit = max_bytes
        self._left = max_bytes
        self._links: list[tuple[str, Path, str]] = []
        self._known: set[Path] = set()

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        path = self._place(member.name)
        try:
            if path is None or not self._place_is_free(path, member):
                self.dropped.append(member.name)
            elif member.isdir():
                self._directory(path)
                path.chmod((member.mode & 0o777) | 0o700)
            elif member.isreg():
                self._file(tar, member, path)
            elif member.issym():
                self._links.append((member.name, path, member.linkname))
            elif not member.islnk() or not self._hard_link(path, member.linkname):
                self.dropped.append(member.name)
        except (OSError, UnicodeError) as error:
            if isinstance(error, OSError) and error.errno in _HOST_TROUBLE:
                raise
            self.dropped.append(member.name)

    def link(self) -> None:
        """Make the symbolic links that cannot lead out of the target."""
        for name, path, to in self._links:
            parts = PurePosixPath(to).parts
            ups = next((i for i, part in enumerate(parts) if part != ".."), len(parts))
            depth = len(path.relative_to(self._target).parts) - 1
            safe = bool(parts) and not to.startswith("/") and ".." not in parts[ups:] and 0 <= ups <= depth
            try:
                if not safe:
                    raise ValueError(name)
                self._directory(path.parent)
                path.symlink_to("/".join(parts))
            except (OSError, ValueError):
                self.dropped.append(name)

    def _place(self, name: str) -> Path | None:
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts or "\0" in name or parts[: len(self._root)] != self._root:
            return None
        return self._target.joinpath(*parts[len(self._root) :])

    def _place_is_free(self, path: Path, member: tarfile.TarInfo) -> bool:
        """Only a directory may stand where a directory goes; the target itself is a directory or a file, no link."""
        if path == self._target and not (member.isdir() or member.isreg()):
            return False
        return member.isdir() or not path.is_dir() or path.is_symlink()

    def _directory(self, path: Path) -> None:
        """Make `path` and its parents below the target real directories, replacing what else stands there."""
        if path in self._known:
            return
        if path == self._target:
            path.mkdir(parents=True, exist_ok=True)
        else:
            self._directory(path.parent)
            status = path.lstat() if os.path.lexists(path) else None
            if status is not None and not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError(path)
            path.mkdir(exist_ok=True)
        self._known.add(path)

    def _file(self, tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
        if member.size > self._left:
            raise _too_large(self._limit)
        if path == self._target:
            path.parent.mkdir(parents=True, exist_ok=True)
        else:
            self._directory(path.parent)
        with suppress(FileNotFoundError):
            path.unlink()
        content = tar.extractfile(member)
        assert content is not None
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, (member.mode & 0o777) | 0o600)
        with open(handle, "wb") as out:  # noqa: PTH123 - a descriptor, not a path
            os.fchmod(handle, (member.mode & 0o777) | 0o600)
            while chunk := content.read(_CHUNK):
                self._left -= len(chunk)
                out.write(chunk)

    def _hard_link(self, path: Path, linkname: str) -> bool:
        source = self._place(linkname)
        if source is None or source == path or source.parent not in self._known or not os.path.lexists(source):
            return False
        if not stat.S_ISREG(source.lstat().st_mode):
            return False
        self._directory(path.parent)
        with suppress(FileNotFoundError):
            path.unlink()
        os.link(source, path, follow_symlinks=False)
        return True


def _too_large(limit: int) -> SandboxError:
    return SandboxError(f"the download is larger than {limit} bytes", operation="download")
