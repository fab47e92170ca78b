"""The lock on a job's folder: who runs a job, or rewrites what it left, holds it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import UsageError
from harness.store.layout import JobPaths


class JobBusy(UsageError):
    """Another process runs the job."""


@contextmanager
def held(paths: JobPaths) -> Iterator[None]:
    """Hold the job's folder for this process. The lock ends with the process, however it ends.

    Raises JobBusy when another process holds it, and UsageError when the folder cannot be written.
    """
    try:
        fd = os.open(paths.running, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise UsageError(f"{paths.root} can not be used as a job folder: {error.strerror}") from None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JobBusy(f"{paths.root} is being run by another process") from None
        yield
    finally:
        os.close(fd)
