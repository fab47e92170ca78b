"""Skills: written instructions that come with a sandbox, of which the agent is told name and purpose.

What lies there is hostile: how many there are, how long they are and what they say is bounded, and a name or a
description is one printable line.
"""

from __future__ import annotations

import asyncio
import posixpath
import re
from dataclasses import dataclass

from backends.protocol import SandboxBackendProtocol

MAX_SKILLS = 50
MAX_HEAD = 16 << 10
"""Bytes of a SKILL.md that its front matter must lie in."""

MAX_NAME, MAX_DESCRIPTION = 80, 1000
_AT_ONCE = 8
_DELIMITER = "---"


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill: `path` is the file to read before the work that `description` speaks of."""

    name: str
    description: str
    path: str


async def find_skills(sandbox: SandboxBackendProtocol, folder: str) -> list[Skill]:
    """The skills in `folder`, sorted by its entries; none where there is no such folder. Raises SandboxError."""
    try:
        entries = await sandbox.ls(folder)
    except (OSError, ValueError):
        return []
    names = [name for entry in entries if (name := posixpath.basename(entry.path)).isprintable()]
    paths = [posixpath.join(folder, name, "SKILL.md") for name in names]
    room = asyncio.Semaphore(_AT_ONCE)

    async def look(path: str) -> Skill | None:
        async with room:
            try:
                head = await sandbox.read(path, max_bytes=MAX_HEAD)
            except (OSError, ValueError):
                return None
        return parse_skill(head.decode("utf-8", "replace"), path)

    try:
        async with asyncio.TaskGroup() as group:
            looking = [group.create_task(look(path)) for path in paths[: 4 * MAX_SKILLS]]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [skill for task in looking if (skill := task.result())][:MAX_SKILLS]


def parse_skill(text: str, path: str) -> Skill:
    """What the front matter says; without one, the folder's name is all that is known."""
    fields = front_matter(text)
    folder = posixpath.basename(posixpath.dirname(path))
    return Skill(
        name=_line(fields.get("name", ""))[:MAX_NAME] or _line(folder)[:MAX_NAME] or "unnamed",
        description=_line(fields.get("description", ""))[:MAX_DESCRIPTION],
        path=path,
    )


def front_matter(text: str) -> dict[str, str]:
    """`key: value` lines between two `---` lines; a value goes on in indented lines. Never raises."""
    first, *lines = text.removeprefix("\ufeff").splitlines() or [""]
    if first.rstrip() != _DELIMITER or _DELIMITER not in (line.rstrip() for line in lines):
        return {}
    fields: dict[str, str] = {}
    current = ""
    for line in lines:
        if line.rstrip() == _DELIMITER:
            break
        pair = re.match(r"([A-Za-z][\w-]{0,63}):(?:[ \t]+(.*))?$", line)
        if pair:
            current = pair[1].lower()
            value = (pair[2] or "").strip()
            fields[current] = "" if re.fullmatch(r"[|>][+-]?", value) else value
        elif current and line[:1] in (" ", "\t"):
            fields[current] = f"{fields[current]} {line.strip()}".strip()
    return {key: _unquoted(value) for key, value in fields.items()}


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
