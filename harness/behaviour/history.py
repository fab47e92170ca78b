"""Whether a shell command looks in a git repository for more than the commits it is at: where a fix may already lie."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.behaviour.shell import unwrapped
from harness.behaviour.shell_syntax import Script

_EVERYWHERE = frozenset({"--all", "--branches", "--tags", "--remotes", "--reflog", "--walk-reflogs", "-g", "--glob"})
_COMMIT = re.compile(r"\^?[0-9a-f]{7,40}(?:[~^:.].*)?")
_OF_A_COMMIT = frozenset({"show", "checkout", "switch", "cherry-pick", "cat-file", "diff", "restore", "reset"})
_WALKS = frozenset({"log", "rev-list", "shortlog", "grep"})
_ALWAYS = frozenset({"reflog", "fsck", "fetch", "pull"})
_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree"})


def script_reads_history(script: Script) -> bool:
    """Whether a command of it lists all refs or the reflog, names a commit by its hash, or fetches."""
    return any(_reads(each.words) for each in script.commands)


def _reads(words: Sequence[str]) -> bool:
    words = unwrapped(words)
    if not words or words[0].rpartition("/")[2] != "git":
        return False
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] in _VALUED else 1 :]
    if not rest:
        return False
    name, arguments = rest[0], rest[1:]
    if name in _ALWAYS:
        return True
    if name in _WALKS and any(word.partition("=")[0] in _EVERYWHERE for word in arguments):
        return True
    return name in _OF_A_COMMIT and any(_COMMIT.fullmatch(word) for word in arguments)
