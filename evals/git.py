"""A file as a revision of the repository around the current folder has it: git:REF:PATH, as in git:origin/main:a.json.

PATH counts from the repository's root; ./PATH from the current folder. Nothing is fetched or checked out.
"""

from __future__ import annotations

import os
import subprocess

from harness.errors import UsageError

GIT = "git:"
_DEADLINE_SEC = 60.0


def read_from_git(place: str) -> bytes:
    """The file's content. Raises UsageError with one line."""
    revision, colon, path = place.removeprefix(GIT).partition(":")
    if not (revision and colon and path) or revision.startswith("-"):
        raise UsageError(f"{place}: write git:REF:PATH, as in git:origin/main:baselines/core.json")
    name = f"{revision}:{path}"
    kind = _git("cat-file", "-t", name)
    if kind.returncode:
        raise UsageError(f"{place}: git has no such file ({_last_line(kind.stderr)})")
    if kind.stdout.strip() != b"blob":
        raise UsageError(f"{place} is no file; keep a baseline in git with: harness baseline save JOB FILE")
    return _git("cat-file", "blob", name).stdout


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        return subprocess.run(  # noqa: S603 – a fixed command, and names that are no options
            ["git", *arguments],  # noqa: S607 – the git of the user's PATH
            env=environment,
            capture_output=True,
            check=False,
            timeout=_DEADLINE_SEC,
        )
    except FileNotFoundError:
        raise UsageError("git is not installed, and the baseline is in it") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"git did not answer within {_DEADLINE_SEC:g} s") from None


def _last_line(text: bytes) -> str:
    return (text.decode("utf-8", "replace").strip().splitlines() or ["no reason given"])[-1]
