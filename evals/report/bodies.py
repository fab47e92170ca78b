"""What is shown of each attempt below its line, as HTML, for as many attempts as the page has room for.

Attempts that did not pass come first, the later before the earlier. At the first that does not fit, all that would
follow are left out: which ones are there depends on nothing but the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evals.report.attempts import Attempt, Job, Status
from evals.report.bounds import Bounds
from evals.report.trajectory import Account, account
from harness.records import Verification
from harness.store.layout import TrialPaths

if TYPE_CHECKING:
    from jinja2 import Template

Key = tuple[int, int]
"""The places of a job and of one of its attempts."""

_ORDER = tuple(Status)


@dataclass(frozen=True, slots=True)
class Judgement:
    """How one part's verdict came about, and the end of what its verifier printed."""

    title: str
    verification: Verification | None
    output: str


def bodies(jobs: Sequence[Job], template: Template, bounds: Bounds) -> tuple[dict[Key, bytes], int]:
    """The bodies that fit, and the number of attempts whose body is left out."""
    keys = [(place, number) for place, job in enumerate(jobs) for number in range(len(job.attempts))]
    keys.sort(key=lambda key: _urgency(jobs[key[0]], jobs[key[0]].attempts[key[1]]))
    found: dict[Key, bytes] = {}
    room = bounds.total
    for place, number in keys:
        attempt = jobs[place].attempts[number]
        body = template.render(
            attempt=attempt,
            accounts=list(_accounts(attempt, bounds)),
            judgements=list(judgements(attempt)),
            bounds=bounds,
        ).encode("utf-8", "replace")
        room -= len(body)
        if room < 0:
            break
        found[place, number] = body
    return found, len(keys) - len(found)


def _urgency(job: Job, attempt: Attempt) -> tuple[int, float, str]:
    return _ORDER.index(job.status(attempt)), -attempt.ended, attempt.finished.name


def _accounts(attempt: Attempt, bounds: Bounds) -> Iterator[Account]:
    paths = TrialPaths(attempt.folder)
    for part in attempt.parts:
        title = f"Trajectory of step {part}" if part else "Trajectory"
        yield account(attempt.folder, paths.trajectory(part), title, bounds)


def judgements(attempt: Attempt) -> Iterator[Judgement]:
    """How each part's verdict came about, where something tells."""
    paths = TrialPaths(attempt.folder)
    for part, verification in zip(attempt.parts, attempt.verifications, strict=True):
        output = verification.output_tail if verification else ""
        output = output or _tail(attempt.folder, paths.verifier(part) / "test-stdout.txt")
        if verification or output:
            yield Judgement(f"Verifier of step {part}" if part else "Verifier", verification, output)


def _tail(root: Path, path: Path, size: int = 4000) -> str:
    """The end of a file below `root`; "" where there is none. No link is followed."""
    if not path.is_file() or path.is_symlink() or not path.resolve().is_relative_to(root.resolve()):
        return ""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
