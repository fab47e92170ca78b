"""Brings an index up to date with the folders: reads what is new or changed, forgets what is gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from harness.store.index.database import Database
from harness.store.index.entry import Unreadable, read_entry
from harness.store.index.folders import look_at
from harness.store.index.rows import Entry
from harness.store.index.write import Looked, forget, known_jobs, known_trials, number_attempts, put
from harness.store.layout import folders_in

BATCH = 400
"""Trials in one transaction: what a kill costs at most, and how long another writer may have to wait."""

_SHOWN_PROBLEMS = 20

Progress = Callable[["Refreshed"], None]


@dataclass(slots=True)
class Refreshed:
    """What a refresh did.

    Attributes:
        jobs, trials: looked at, with a record. added, changed, removed: trials whose entry is new, other, or gone.
        damaged: of the added and changed ones, those of which something could not be read; `problems` are the first.
        unfinished: trials without a record.
        behind: jobs and trials that the time did not suffice for; the next refresh goes on there.
        absent: folders of jobs that are not there (any more); what the index knows of them stays.
        note: what was done to an older index.
    """

    jobs: int = 0
    trials: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    damaged: int = 0
    unfinished: int = 0
    behind_jobs: int = 0
    behind_trials: int = 0
    absent: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    note: str | None = None
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether the index now says what the folders say."""
        return not (self.behind_jobs or self.behind_trials)


class Refresh:
    """One pass over folders of jobs. Whatever happens to it, what it has committed stays, and is not read again."""

    def __init__(
        self, database: Database, *, budget_sec: float | None = None, on_progress: Progress | None = None
    ) -> None:
        """`budget_sec`: when to stop reading, between two trials; None never does."""
        self._database = database
        self._deadline = None if budget_sec is None else time.monotonic() + budget_sec
        self._on_progress = on_progress
        self.done = Refreshed()

    def run(self, roots: dict[str, Path]) -> Refreshed:
        """Refresh these folders of jobs, by the name that the index gives each. Raises IndexTrouble."""
        started = time.monotonic()
        self.done.note = self._database.prepare()
        for root, folder in roots.items():
            self._root(root, folder)
        self.done.seconds = time.monotonic() - started
        return self.done

    def _root(self, root: str, folder: Path) -> None:
        try:
            jobs = folders_in(folder)
        except OSError:
            self.done.absent.append(str(folder))
            return
        with self._database.reading() as connection:
            gone = known_jobs(connection, root) - set(jobs)
        for job in sorted(gone):
            self._forget_all(root, job)
        for job in jobs:
            if self._late():
                self.done.behind_jobs += 1
            else:
                self._job(root, job, folder / job)

    def _forget_all(self, root: str, job: str) -> None:
        with self._database.writing() as connection:
            ids = [known.id for known in known_trials(connection, root, job).values()]
            forget(connection, ids)
        self.done.removed += len(ids)

    def _job(self, root: str, job: str, folder: Path) -> None:
        try:
            seen = look_at(folder)
        except OSError:  # removed since it was listed; the next refresh forgets it
            return
        with self._database.reading() as connection:
            known = known_trials(connection, root, job)
        self.done.jobs += 1
        self.done.trials += len(seen.fingerprints)
        self.done.unfinished += seen.unfinished
        gone = [each.id for trial, each in known.items() if trial not in seen.fingerprints]
        if gone:
            with self._database.writing() as connection:
                forget(connection, gone)
                number_attempts(connection, root, job)
            self.done.removed += len(gone)
        for name in seen.nameless:
            self._problem(f"{job}/{name}: the folder's name is no text, so that it cannot be indexed")
        stale = sorted(
            trial
            for trial, fingerprint in seen.fingerprints.items()
            if trial not in known or known[trial].fingerprint != fingerprint
        )
        looked = self._read(root, job, folder, stale, seen.fingerprints)
        while batch := list(islice(looked, BATCH)):
            with self._database.writing() as connection:
                put(connection, root, job, batch)
            changed = sum(each.trial in known for each in batch)
            self.done.changed += changed
            self.done.added += len(batch) - changed
            if self._on_progress is not None:
                self._on_progress(self.done)

    def _read(
        self, root: str, job: str, folder: Path, trials: Sequence[str], fingerprints: dict[str, str]
    ) -> Iterator[Looked]:
        for number, trial in enumerate(trials):
            if self._late():
                self.done.behind_trials += len(trials) - number
                return
            entry: Entry | None = None
            problem: str | None = None
            try:
                if fingerprints[trial] == "not a file":
                    raise Unreadable("result.json is not a regular file")
                entry = read_entry(root, job, folder / trial)
                problem = entry.problem
            except Unreadable as error:
                problem = str(error)
            if problem is not None:
                self._problem(f"{job}/{trial}/{problem}")
            yield Looked(trial, fingerprints[trial], entry, problem)

    def _problem(self, line: str) -> None:
        self.done.damaged += 1
        if len(self.done.problems) < _SHOWN_PROBLEMS:
            self.done.problems.append(line)

    def _late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline
