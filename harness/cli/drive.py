"""What `harness run` and `harness resume` share: a loop, a display, signals, the report."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TextIO, cast

from rich.console import Console

from harness.cli.display import Display, JsonDisplay, make_display
from harness.cli.finish import INTERRUPTED, Interrupts, exit_code, report
from harness.cli.output import SteadyStream
from harness.cli.tracing import end_exporters
from harness.job.runner import JobOutcome, OnStart, RunningJob
from harness.job.scheduler import Stopping
from harness.tracing.exporter import Exporter
from harness.trial.events import Emit

Start = Callable[[Emit, OnStart], Awaitable[JobOutcome]]


def drive(
    start: Start,
    *,
    exporters: Sequence[Exporter] = (),
    as_json: bool,
    plain_lines: bool,
    max_infra: float,
    fail_under: float | None,
) -> int:
    """Run a job to its end and return the exit code. `exporters` are among the job's subscribers, and end here."""
    out = cast(TextIO, SteadyStream(sys.stdout))
    console = Console(file=cast(TextIO, SteadyStream(sys.stderr)) if as_json else out, emoji=False)
    display = JsonDisplay(out, console) if as_json else make_display(console, plain_lines=plain_lines)
    try:
        outcome = asyncio.run(_watch(start, display))
        report(outcome, console, json_to=out if as_json else None)
    finally:
        end_exporters(exporters, console)
    return exit_code(outcome, max_infra=max_infra, fail_under=fail_under)


async def _watch(start: Start, display: Display) -> JobOutcome:
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
    ends = [signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # nohup asks to outlive the terminal
        ends.append(signal.SIGHUP)
    for number in ends:
        loop.add_signal_handler(number, terminated)
    try:
        return await start(display.event, started)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        display.close()
        for number in (signal.SIGINT, *ends):
            loop.remove_signal_handler(number)
