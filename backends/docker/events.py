"""Why a container died, from the engine's own record of its events."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from backends.docker.engine import Engine
from backends.docker.errors import NAME
from backends.errors import SandboxError, SandboxOutOfMemory, SandboxUnavailable


@dataclass(frozen=True, slots=True)
class Death:
    """The end of a container's first process; None where the engine no longer remembers."""

    exit_code: int | None
    oom: bool

    def error(self, sandbox_id: str, operation: str) -> SandboxError:
        """The exception to raise in place of a result."""
        if self.oom and self.exit_code == 137:
            return SandboxOutOfMemory(
                "the sandbox was killed for memory", backend=NAME, operation=operation, sandbox_id=sandbox_id
            )
        how = "was removed or has ended" if self.exit_code is None else f"ended with exit code {self.exit_code}"
        return SandboxUnavailable(f"the sandbox {how}", backend=NAME, operation=operation, sandbox_id=sandbox_id)


async def death(engine: Engine, container_id: str, since: float) -> Death:
    """What the engine recorded of a container's end since `since` (epoch seconds). Never raises SandboxError."""
    exit_code: int | None = None
    oom = False
    params = {
        "since": f"{since:.0f}",
        "until": f"{time.time() + 1:.0f}",
        "filters": json.dumps({"container": [container_id], "event": ["die", "oom"]}),
    }
    try:
        async with engine.call("events", timeout=10) as client, client._query("events", params=params) as response:
            async for line in response.content:
                event = json.loads(line)
                if event.get("Action") == "oom":
                    oom = True
                elif event.get("Action") == "die":
                    exit_code = int(event["Actor"]["Attributes"].get("exitCode", -1))
    except (SandboxError, ValueError, LookupError):
        pass
    return Death(exit_code, oom)
