"""Locks that end with their process. Who runs a job, or rewrites what it left, holds the one on its folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.errors import UsageError
from harness.store.layout import JobPaths


class JobBusy(UsageError):
    """Another process runs the job."""


@contextmanager
def held(paths: JobPaths) -> Iterator[None]:
    """Hold the job's folder for this process. The lock ends with the process, however it ends.

    Raises JobBusy when another process holds it, and UsageError when the folder cannot be written.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(paths.running))
        except BlockingIOError:
            raise JobBusy(f"{paths.root} is being run by another process") from None
        except OSError as error:
            raise UsageError(f"{paths.root} can not be used as a job folder: {error.strerror}") from None
        yield


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the lock on a file, which is made where it is not there. The lock ends with the process, however it ends.

    Raises BlockingIOError when another process holds it, and OSError when the file cannot be opened.
    """
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)


def is_held(paths: JobPaths) -> bool:
    """Whether some process runs the job; asked of the kernel, so that nobody who starts it meets our lock."""
    try:
        inode = f":{paths.running.lstat().st_ino} "
        return any(" FLOCK " in line and inode in line for line in Path("/proc/locks").read_text().splitlines())
    except OSError:
        return False
