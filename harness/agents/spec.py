"""An agent that was asked for, before it is made: what records keep of it, and what tells two runs apart."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from harness.agents.protocol import Agent
from harness.redaction import REDACTED, Redactor, is_secret_name


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """An agent that was asked for, with its settings checked; nothing of it runs yet.

    Attributes:
        name: as it was asked for.
        type: the built-in, plugin or `module:Class` behind it.
        settings: a built-in's own, or the keyword arguments of any other.
        make: makes the agent.
    """

    name: str
    type: str
    settings: BaseModel | Mapping[str, Any]
    make: Callable[[], Agent]

    def describe(self) -> dict[str, Any]:
        """The settings as JSON, without secrets, and with the digests of the files that they name."""
        raw = self.settings
        values = raw.model_dump(mode="json") if isinstance(raw, BaseModel) else dict(raw)
        fields = dict(raw) if isinstance(raw, BaseModel) else raw
        files = {
            key: f"sha256:{hashlib.sha256(value.read_bytes()).hexdigest()}"
            for key, value in fields.items()
            if isinstance(value, Path) and value.is_file()
        }
        described = {"name": self.name, "type": self.type, **_without_secrets(values, Redactor())}
        return {**described, "files": files} if files else described


def _without_secrets(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        return {
            str(key): REDACTED if is_secret_name(str(key)) else _without_secrets(item, redact)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(item, redact) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return redact(str(value))
