"""Started is not ready: the agent starts only when the task's own check passes."""

from __future__ import annotations

import asyncio
import time

from backends.protocol import SandboxBackendProtocol
from harness.errors import HealthcheckFailed
from harness.task.model import Healthcheck


async def wait_until_healthy(sandbox: SandboxBackendProtocol, check: Healthcheck) -> None:
    """Run the check until it passes, with Docker's meaning of the grace period and the retries.

    Raises HealthcheckFailed after `retries` consecutive failures outside the start period.
    """
    started = time.monotonic()
    failures = 0
    while True:
        response = await sandbox.execute(check.command, timeout=check.timeout_sec)
        if response.exit_code == 0:
            return
        in_grace = time.monotonic() - started < check.start_period_sec
        if not in_grace:
            failures += 1
            if failures >= check.retries:
                code = "no answer in time" if response.timed_out else f"exit {response.exit_code}"
                raise HealthcheckFailed(
                    f"the health check failed {failures} times in a row ({code}): {response.output[-300:]}"
                )
        await asyncio.sleep(check.start_interval_sec if in_grace else check.interval_sec)
