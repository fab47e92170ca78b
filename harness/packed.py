"""A file of the record as it was written, or compressed in place by `harness store compact`: one way to open either.

The plain form wins where both are there, which is what a compaction that was killed leaves.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import ModuleType

from harness.errors import UsageError

SUFFIX = ".zst"
MAX_BYTES = 1 << 30
"""Of one file, in either form: what is larger is no record."""


def find(path: Path) -> Path | None:
    """Where the content of `path` lies: there, or compressed next to it; None if in neither place. Follows no link."""
    return next((each for each in (path, packed_path(path)) if _is_regular(each)), None)


def packed_path(path: Path) -> Path:
    """Where the compressed form of a file lies."""
    return path.with_name(path.name + SUFFIX)


def read_bytes(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of `path`, in whichever form it lies.

    Raises OSError, ValueError for what is too large or damaged, and UsageError where the package that decompresses is
    missing.
    """
    found = find(path)
    if found is None or found == path:
        return _read(path, max_bytes)
    return unpack(_read(found, max_bytes), max_bytes=max_bytes, name=found.name)


def pack(data: bytes) -> bytes:
    """`data` compressed, with its length and a checksum."""
    packed: bytes = _zstandard().ZstdCompressor(level=9, write_checksum=True, write_content_size=True).compress(data)
    return packed


def unpack(data: bytes, *, max_bytes: int = MAX_BYTES, name: str = "the file") -> bytes:
    """What `pack` compressed. Raises ValueError for anything else."""
    zstandard = _zstandard()
    try:
        size = zstandard.get_frame_parameters(data).content_size
        if size > max_bytes:
            raise ValueError(f"{name} holds more than {max_bytes} bytes, or does not say how many")
        content: bytes = zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise ValueError(f"{name} is damaged: {error}") from None
    return content


def _read(path: Path, max_bytes: int) -> bytes:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > max_bytes:
            raise ValueError(f"{path.name} is larger than {max_bytes} bytes")
        return file.read(max_bytes + 1)


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _zstandard() -> ModuleType:
    try:
        import zstandard
    except ImportError as error:
        raise UsageError("compressed records need: pip install 'harness-rl[store]'") from error
    return zstandard
