"""What `harness run` and `harness resume` share: a loop, a display, signals, the report."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

from rich.console import Console

from harness.cli.display import make_display
from harness.cli.finish import INTERRUPTED, Interrupts, exit_code, report
from harness.job.runner import JobOutcome, OnStart, RunningJob
from harness.job.scheduler import Stopping
from harness.trial.events import Emit

Start = Callable[[Emit, OnStart], Awaitable[JobOutcome]]


def drive(start: Start, *, as_json: bool, plain_lines: bool, max_infra: float, fail_under: float | None) -> int:
    """Run a job to its end and return the exit code."""
    console = Console(stderr=as_json)
    outcome = asyncio.run(_watch(start, console, as_json, plain_lines))
    report(outcome, console, as_json=as_json)
    return exit_code(outcome, max_infra=max_infra, fail_under=fail_under)


async def _watch(start: Start, console: Console, as_json: bool, plain_lines: bool) -> JobOutcome:
    display = make_display(as_json=as_json, plain_lines=plain_lines, console=console)
    loop = asyncio.get_running_loop()
    interrupts = Interrupts()
    running: list[RunningJob] = []
    current = asyncio.current_task()

    def interrupted() -> None:
        how, line = interrupts.next()
        display.say(line)
        if how is None:
            display.close()
            os._exit(INTERRUPTED)
        if running:
            running[0].stop(how)
        elif current is not None:
            current.cancel()

    def terminated() -> None:
        interrupts.count = 2
        if running:
            running[0].stop(Stopping.NOW)
        elif current is not None:
            current.cancel()

    def started(job: RunningJob) -> None:
        running.append(job)
        display.start(job)

    loop.add_signal_handler(signal.SIGINT, interrupted)
    loop.add_signal_handler(signal.SIGTERM, terminated)
    try:
        return await start(display.event, started)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        display.close()
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)
