"""Started is not ready: the agent starts only when the task's own check passes."""

from __future__ import annotations

import asyncio
import time

from backends.protocol import SandboxBackendProtocol
from harness.errors import HealthcheckFailed
from harness.task.model import Healthcheck


async def run_setup(sandbox: SandboxBackendProtocol, script: str, *, user: str | None, timeout: float) -> None:
    """Run a step's set-up script in the workdir. Raises HealthcheckFailed if it fails."""
    response = await sandbox.execute(f"bash ./{script}", timeout=timeout, user=_known(sandbox, user))
    if response.exit_code != 0:
        raise HealthcheckFailed(f"the step's {script} ended with exit {response.exit_code}: {response.output[-300:]}")


def _known(sandbox: SandboxBackendProtocol, user: str | None) -> str | None:
    return user if sandbox.capabilities.users else None


async def wait_until_healthy(sandbox: SandboxBackendProtocol, check: Healthcheck, *, user: str | None = None) -> None:
    """Run the check until it passes, with Docker's meaning of the grace period and the retries.

    Raises HealthcheckFailed after `retries` consecutive failures outside the start period.
    """
    started = time.monotonic()
    failures = 0
    while True:
        response = await sandbox.execute(check.command, timeout=check.timeout_sec, user=_known(sandbox, user))
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
