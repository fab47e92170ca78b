"""`harness.toml`: the user's own agents, one table each.

    [agents.mymodel]
    type = "tool_calling"
    model = "my-model"
    base_url = "http://localhost:8000/v1"
    parameters = { temperature = 0.7 }

`type` is a built-in, a plugin's name, or `module:Class`; it may be left out in a table that is named like a built-in.
The other keys are that type's own. Relative paths start from the file's folder.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError

FILE_NAME = "harness.toml"


@dataclass(frozen=True, slots=True)
class AgentTable:
    """One `[agents.NAME]`, and the file it stands in."""

    file: Path
    name: str
    fields: dict[str, Any]

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.file}: [agents.{self.name}]"


def find_config(start: Path) -> Path | None:
    """The nearest `harness.toml`, in `start` or a folder above it."""
    folder = start.resolve()
    return next((path for each in (folder, *folder.parents) if (path := each / FILE_NAME).is_file()), None)


def read_agent_tables(file: Path) -> dict[str, AgentTable]:
    """The agents in a file. Raises UsageError with one line for a file that is missing or malformed."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file} is not TOML: {error}") from error
    for key in document:
        if key != "agents":
            raise UsageError(f"{file}: unknown table [{key}]; agents are written as [agents.NAME]")
    agents = document.get("agents", {})
    if not isinstance(agents, dict):
        raise UsageError(f"{file}: agents are written as [agents.NAME]")
    for name, fields in agents.items():
        if not isinstance(fields, dict):
            raise UsageError(f"{file}: agents.{name} is not a table; write [agents.{name}]")
    return {name: AgentTable(file, name, fields) for name, fields in agents.items()}
