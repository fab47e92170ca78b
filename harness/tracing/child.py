"""The child process that owns an SDK: `python -m harness.tracing.child TARGET JOB [WHERE]`.

It is told the names of finished trials, makes their traces from their folders, sends them one at a time, and says what
became of each. It may block, be slow, or die: the run waits for it no longer than it was promised. It ends by itself
when the run has ended, however that ended.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.tracing.job import JobFacts, read_job
from harness.tracing.sink import Sink, Target, Unsent, open_sink
from harness.tracing.trial import trace_of
from harness.tracing.wire import Lines, line

MAX_QUEUE = 10_000
"""Names that wait; the run counts what does not fit as not sent."""

BREAK_AFTER, BREAK_SEC = 3, 30.0
"""After so many failures in a row nothing is tried for so long: a server that is down is left alone."""

_NICENESS = 10
_END = None

Say = Callable[..., None]


def main() -> int:
    """Run until told to end, or until whoever started this is gone."""
    target, folder, where = Target(sys.argv[1]), Path(sys.argv[2]), next(iter(sys.argv[3:]), None)
    say = _own_output()
    os.nice(_NICENESS)
    names: queue.Queue[str | None] = queue.Queue(MAX_QUEUE + 1)
    threading.Thread(target=_listen, args=(names, say), daemon=True).start()
    try:
        job = read_job(folder)
        sink = open_sink(target, job, where, os.environ)
    except (ImportError, HarnessError, Unsent) as error:
        say(unable=_one_line(error))
        return 1
    _send_all(sink, job, names, say)
    return 0


def _own_output() -> Say:
    """What this process says goes to a descriptor that no SDK prints to."""
    out = os.dup(1)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)

    def say(**message: Any) -> None:
        try:
            os.write(out, line(**message))
        except OSError:
            os._exit(0)  # nobody listens any more

    return say


def _listen(names: queue.Queue[str | None], say: Say) -> None:
    """Take what the run says, at once, so that it never waits."""
    lines = Lines()
    while data := os.read(0, 1 << 16):
        for message in lines.feed(data):
            if "end" in message:
                threading.Timer(float(message["end"]), os._exit, [0]).start()
                names.put(_END)
                return
            try:
                names.put_nowait(str(message.get("trial")))
            except queue.Full:
                say(failed=message.get("trial"), why="the queue is full")
    os._exit(0)


def _send_all(sink: Sink, job: JobFacts, names: queue.Queue[str | None], say: Say) -> None:
    breaker = _Breaker()
    complete = True
    while (name := names.get()) is not _END:
        problem = breaker.why or _send(sink, job, name, say)
        complete &= problem is None
        if problem is not None:
            say(failed=name, why=problem)
        breaker.note(problem)
    if complete:
        try:
            sink.finish()
        except Unsent as error:
            say(finish=_one_line(error))


def _send(sink: Sink, job: JobFacts, name: str, say: Say) -> str | None:
    """Send one trial; the reason if that failed."""
    try:
        sent = sink.send(trace_of(job, name))
    except Unsent as error:
        return _one_line(error)
    except Exception as error:  # noqa: BLE001 – a record or an SDK that nobody foresaw costs one trace
        return f"{type(error).__name__}: {_one_line(error)}"
    say(**{"sent" if sent else "left_out": name})
    return None


class _Breaker:
    """Closed until failures follow each other; open for a while then. One success closes it."""

    def __init__(self) -> None:
        self._failures = 0
        self._last = ""
        self._until = 0.0

    @property
    def why(self) -> str | None:
        """Why nothing is tried now; None if it may be."""
        return self._last if time.monotonic() < self._until else None

    def note(self, problem: str | None) -> None:
        """What became of the latest trial."""
        self._failures = 0 if problem is None else self._failures + 1
        if problem is not None and self._failures >= BREAK_AFTER and self.why is None:
            self._last, self._until = problem, time.monotonic() + BREAK_SEC


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # an SDK's threads would hold the exit
