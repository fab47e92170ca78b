"""`trial.log`: one line, with its time, for each thing that happened in an execution.

What the backends warn of on the way, a call that had to be repeated, is told in the log of the trial that it was for.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TextIO

from harness.records import now
from harness.store.layout import JobPaths, TrialPaths
from harness.trial.events import RUNNING, Event, PhaseStarted, TrialFinished, TrialRetried


class TrialLog:
    """A subscriber that writes every trial's log; a file is open while its trial runs."""

    def __init__(self, paths: JobPaths) -> None:
        self._paths = paths
        self._files: dict[str, TextIO] = {}
        self._warnings = _Warnings(self)
        logging.getLogger("backends").addHandler(self._warnings)

    def __call__(self, event: Event) -> None:
        with suppress(OSError):  # a log line that does not fit on the disk costs no later one
            self._note(event)

    def _note(self, event: Event) -> None:
        if isinstance(event, PhaseStarted):
            self._write(event.trial_name, event.phase.value + (f" ({event.step})" if event.step else ""))
        elif isinstance(event, TrialFinished):
            result = event.result
            reward = "no reward" if result.reward is None else f"reward {result.reward:g}"
            why = f" ({result.failure.tag})" if result.failure else ""
            self._write(result.trial_name, f"{result.outcome.value if result.outcome else 'ended'}: {reward}{why}")
            self._files.pop(result.trial_name).close()
        elif isinstance(event, TrialRetried):
            _append(self._paths.trial(event.result.trial_name), f"will be repeated in {event.delay_sec:.1f} s")

    def warn(self, text: str) -> None:
        """A line in the log of the trial that the current task works for, if it is one of this job's.

        It may come after the trial's own last line: what a trial left to be stopped is still at work then.
        """
        trial = RUNNING.get()
        if trial is not None and trial.root.parent == self._paths.root:
            with suppress(OSError):
                _append(trial, text)

    def close(self) -> None:
        """Close what is still open."""
        logging.getLogger("backends").removeHandler(self._warnings)
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _write(self, trial_name: str, text: str) -> None:
        file = self._files.get(trial_name)
        if file is None:
            file = self._files[trial_name] = self._paths.trial(trial_name).log.open("a", encoding="utf-8", buffering=1)
        file.write(_line(text))


class _Warnings(logging.Handler):
    """Hands warnings to the log."""

    def __init__(self, log: TrialLog) -> None:
        super().__init__(logging.WARNING)
        self._trial_log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._trial_log.warn(record.getMessage())


def _append(trial: TrialPaths, text: str) -> None:
    with trial.log.open("a", encoding="utf-8") as file:
        file.write(_line(text))


def _line(text: str) -> str:
    return f"{now().isoformat(timespec='milliseconds')} {text}\n"
