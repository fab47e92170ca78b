"""The run's side of an exporter: names go into a pipe that is never waited for, and a child process does the rest.

Nothing here blocks while a job runs. What does not fit into the pipe, or is not sent when the job's end can wait no
longer, is counted; the trials' folders are the record, and can be sent later.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import harness
from harness.tracing.sink import Target
from harness.tracing.wire import Lines, line
from harness.trial.events import Event, TrialFinished

MIN_WAIT_SEC, MAX_WAIT_SEC, WAIT_SHARE = 0.5, 10.0, 0.04
"""How long the end of a job waits for its exporters, in all: this share of its time, within these bounds."""

_GRACE_SEC = 0.05


@dataclass(slots=True)
class Tally:
    """What became of the traces. `why` is the latest failure's reason, `unable` that the exporter could not work."""

    sent: int = 0
    left_out: int = 0
    failed: int = 0
    offered: int = 0
    why: str = ""
    unable: str = ""

    @property
    def unsent(self) -> int:
        """Trials that were not sent, for whatever reason but sampling."""
        return self.offered - self.sent - self.left_out


@dataclass(slots=True)
class Exporter:
    """A subscriber of a job's events, and its child process.

    Attributes:
        folder: the job's. where: the project or the endpoint, as the target takes it; None for its own default.
        tally: what is known so far.
    """

    target: Target
    folder: Path
    where: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    tally: Tally = field(default_factory=Tally)
    _child: subprocess.Popen[bytes] | None = None
    _lines: Lines = field(default_factory=Lines)
    _started: float = 0.0

    def __call__(self, event: Event) -> None:
        """Start with the first event, when the job's folder is there; offer every execution that finished."""
        self.start()
        if isinstance(event, TrialFinished):
            self.offer(event.result.trial_name)
            self.tally.offered += 1

    def start(self) -> None:
        """Start the child process, once. Where that fails, everything counts as not sent."""
        if self._started:
            return
        self._started = time.monotonic()
        argv = [sys.executable, "-P", "-m", "harness.tracing.child", self.target.value, str(self.folder)]
        try:
            self._child = subprocess.Popen(  # noqa: S603 – this interpreter, this package
                argv + ([self.where] if self.where else []),
                env=child_environment(self.env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C is the run's
            )
        except OSError as error:
            self.tally.unable = str(error.strerror)
            return
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)

    def offer(self, name: str) -> bool:
        """Hand a trial over, without waiting; False if the child takes no more now."""
        self.hear()
        return self._write(line(trial=name))

    def hear(self, within: float = 0.0) -> bool:
        """Take what the child has said, waiting at most `within` seconds for it to speak. False once it is gone."""
        if self._child is None or self._child.stdout is None:
            return False
        fd = self._child.stdout.fileno()
        if within and not select.select([fd], [], [], within)[0]:
            return True
        with suppress(BlockingIOError):
            while data := os.read(fd, 1 << 16):
                for message in self._lines.feed(data):
                    self._count(message)
            return False
        return True

    def ask_to_end(self, within: float) -> None:
        """Tell the child that nothing more comes, and how many seconds it has."""
        self._write(line(end=within))

    def kill(self) -> None:
        """End the child process, now, and leave nothing of it."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    @property
    def wait_sec(self) -> float:
        """How long the job's end may wait."""
        elapsed = time.monotonic() - self._started if self._started else 0.0
        return min(MAX_WAIT_SEC, max(MIN_WAIT_SEC, WAIT_SHARE * elapsed))

    def _write(self, data: bytes) -> bool:
        if self._child is None or self._child.stdin is None:
            return False
        try:
            # Shorter than PIPE_BUF: it is written as a whole or not at all.
            return os.write(self._child.stdin.fileno(), data) == len(data)
        except OSError:
            return False

    def _count(self, message: Mapping[str, Any]) -> None:
        self.tally.sent += "sent" in message
        self.tally.left_out += "left_out" in message
        self.tally.failed += "failed" in message
        self.tally.why = str(message.get("why") or message.get("finish") or self.tally.why)
        self.tally.unable = str(message.get("unable") or self.tally.unable)


def child_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process, which finds this package wherever it runs."""
    paths = [str(Path(harness.__file__).parents[1]), env.get("PYTHONPATH", "")]
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def end_all(exporters: Sequence[Exporter]) -> None:
    """Wait until every exporter is done, as long as the job may wait, and end them."""
    if not any(exporter._child for exporter in exporters):
        return
    within = max(exporter.wait_sec for exporter in exporters)
    deadline = time.monotonic() + within
    for exporter in exporters:
        exporter.ask_to_end(within)
    for exporter in exporters:
        while (left := deadline - time.monotonic()) > 0 and exporter.hear(left):
            pass
        exporter.hear()
        exporter.kill()
