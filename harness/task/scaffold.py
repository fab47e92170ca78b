"""A new task that works as it stands: its oracle earns 1, doing nothing earns 0."""

from __future__ import annotations

import re
from pathlib import Path

from harness.errors import UsageError
from harness.task.tree import show_path

NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)

FILES = {
    "task.toml": """schema_version = "1.4"

[metadata]
category = "file_operations"
difficulty = "easy"

[agent]
timeout_sec = 300.0

[verifier]
timeout_sec = 60.0

[environment]
network_mode = "no-network"
""",
    "instruction.md": """Create the file `/app/answer.txt` with the single line `42`.
""",
    "environment/Dockerfile": """FROM debian:bookworm-slim
WORKDIR /app
""",
    "solution/solve.sh": """#!/bin/bash
set -eu
echo 42 > /app/answer.txt
""",
    "tests/test.sh": """#!/bin/bash
# Runs after the agent has stopped; what it writes to /logs/verifier/reward.txt, a number from 0 to 1, is the reward.
reward=0
if [ -f /app/answer.txt ] && [ ! -L /app/answer.txt ] && echo 42 | cmp - /app/answer.txt; then
    reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
""",
}


def write_task(directory: Path, name: str) -> Path:
    """Write a minimal task to `directory/name` and return that folder.

    Raises UsageError for a name that cannot be a folder, a folder that exists, and one that cannot be written.
    """
    if not NAME.fullmatch(name):
        raise UsageError(f"{show_path(name)!r} cannot name a task: use letters, digits, '.', '_' and '-'")
    folder = directory / name
    try:
        folder.mkdir(parents=True)
        for file, text in FILES.items():
            path = folder / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            if path.suffix == ".sh":
                path.chmod(0o755)
    except FileExistsError:
        raise UsageError(f"{show_path(str(folder))} exists; choose another name or remove it first") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{show_path(str(folder))} cannot be written: {reason}") from None
    return folder
