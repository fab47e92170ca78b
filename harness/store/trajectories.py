"""`TrajectoryStore`: every attempt of a folder of jobs, found by its index and read from its files.

store = TrajectoryStore("jobs")
for record in store.query('outcome=scored reward>=0.5 tool=bash command~"git "'):
    print(record.task, record.reward, len(record.trajectory().steps))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.store.index.database import Database, default_path, is_url
from harness.store.index.filter import parse_filter
from harness.store.index.rows import TrialRow
from harness.store.layout import TrialPaths
from harness.store.reader import load_result
from harness.store.rollout import RolloutReader

if TYPE_CHECKING:
    from harness.atif.model import Trajectory
    from harness.records import TrialResult
    from harness.store.index.refresh import Progress, Refreshed
    from harness.store.index.sql import Answer

HERE = "."
"""The name, in an index, of the folder of jobs that it lies in: the folder can be moved with its index."""

REFRESH_SEC = 5.0
"""How long a query waits for what is new, before it answers from what is known and says so."""

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """One trial as the index knows it (`row`, whose fields are its own, too), and its files, read when asked for."""

    row: TrialRow
    folder: Path

    def __getattr__(self, name: str) -> Any:
        return getattr(self.row, name)

    @property
    def paths(self) -> TrialPaths:
        """Its files."""
        return TrialPaths(self.folder)

    def result(self) -> TrialResult:
        """The whole record. Raises OSError, and ValueError if it was damaged since."""
        result = load_result(self.paths.result)
        result.attempt = self.row.attempt
        return result

    def trajectory(self, step: str | None = None) -> Trajectory:
        """What the agent did; of one step, in a task that has several. Raises OSError and TrajectoryInvalid."""
        from harness.atif.reader import load_trajectory

        return load_trajectory(self.paths.trajectory(step))

    def rollout(self, step: str | None = None) -> RolloutReader:
        """The sampled tokens, call by call; iterating raises OSError where there are none."""
        return RolloutReader(self.paths.rollout(step))


class TrajectoryStore:
    """The trials of a folder of jobs, by its index; or of all folders that a shared index knows.

    A refresh reads what is new, so that an answer is about the files as they are; see `harness.store.index`.
    """

    def __init__(self, place: str | Path = "jobs", *, db: str | Path | None = None) -> None:
        """`place`: a folder of jobs, or else the index itself: a SQLite file, or a database's URL.

        `db`: where the index of the folder `place` is kept, if not inside of it. Raises UsageError.
        """
        folder = None if is_url(str(place)) or Path(place).is_file() else Path(place)
        if folder is not None and not folder.is_dir():
            raise UsageError(f"{folder} is not a folder; name the folder that holds jobs")
        self._folder = folder
        if folder is not None and db is None:
            self.database = Database(default_path(folder))
            self._roots: dict[str, Path] | None = {HERE: folder}
        else:
            self.database = Database(place if folder is None else db or "")
            self._roots = None if folder is None else {str(folder.resolve()): folder}

    def refresh(self, *, budget_sec: float | None = None, on_progress: Progress | None = None) -> Refreshed:
        """Read what is new, changed or gone; at most for so many seconds. Raises IndexTrouble."""
        from harness.store.index.refresh import Refresh

        return Refresh(self.database, budget_sec=budget_sec, on_progress=on_progress).run(self._known_roots())

    def rebuild(self, *, on_progress: Progress | None = None) -> Refreshed:
        """Throw the index away, and read everything. Raises IndexTrouble."""
        roots = self._known_roots(lenient=True)
        note = self.database.prepare(anew=True)
        from harness.store.index.refresh import Refresh

        done = Refresh(self.database, on_progress=on_progress).run(roots)
        done.note = note or done.note
        return done

    def query(self, text: str = "", *, limit: int | None = None, offset: int = 0) -> Iterator[StoredTrial]:
        """The trials that a filter describes (see `harness.store.index.filter`), the latest first, as they are read.

        `offset`: how many of them to pass over. Says what the index says: call `refresh` first for what the files say.
        Raises UsageError at once.
        """
        from harness.store.index.select import select_trials

        wanted = parse_filter(text)
        if wanted.by is not None:
            raise UsageError(f"by:{wanted.by} counts, and is not for a query of trials; call counts()")
        return self._records(select_trials(wanted, limit, offset))

    def columns(self, text: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Only these fields of the trials, or of their behaviour, in the order of their folders: fast for many."""
        from harness.store.index.select import select_columns

        with self.database.reading() as connection:
            return [tuple(row) for row in connection.execute(select_columns(parse_filter(text), names))]

    def count(self, text: str = "") -> int:
        """How many trials a filter describes."""
        from harness.store.index.select import count_trials

        with self.database.reading() as connection:
            return int(connection.scalar(count_trials(parse_filter(text))) or 0)

    def state(self, text: str = "") -> tuple[int, int]:
        """Two numbers, how many they are the first, that change whenever one of those trials changes."""
        from harness.store.index.select import state_of

        with self.database.reading() as connection:
            count, newest = connection.execute(state_of(parse_filter(text))).one()
            return int(count), int(newest or 0)

    def counts(self, text: str) -> list[dict[str, Any]]:
        """For a filter with `by:NAME`: a row for each value, with trials, mean reward and outcomes."""
        from harness.store.index.select import count_by

        wanted = parse_filter(text)
        if wanted.by is None:
            raise UsageError("counts need what to count by, e.g. by:task")
        with self.database.reading() as connection:
            return [dict(row) for row in connection.execute(count_by(wanted, wanted.by)).mappings()]

    def sql(self, statement: str, *, limit: int | None = 1000, timeout_sec: float = 30.0) -> Answer:
        """The rows of a query of one's own (tables: see `harness.store.index.tables`). Raises SqlRefused."""
        from harness.store.index.sql import run_sql

        return run_sql(self.database, statement, limit=limit, timeout_sec=timeout_sec)

    def close(self) -> None:
        """Close the database. Idempotent."""
        self.database.close()

    def __enter__(self) -> TrajectoryStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _records(self, query: Any) -> Iterator[StoredTrial]:
        with self.database.reading() as connection:
            for row in connection.execution_options(yield_per=_CHUNK).execute(query):
                found = TrialRow(**row._mapping)
                yield StoredTrial(found, self._folder_of(found.root) / found.job / found.trial)

    def _folder_of(self, root: str) -> Path:
        if root != HERE:
            return Path(root)
        if self._folder is not None:
            return self._folder
        return self.database.path.parent.parent if self.database.path is not None else Path(root)

    def _known_roots(self, *, lenient: bool = False) -> dict[str, Path]:
        """The folders of jobs to look at: the one that was named, or all that the index knows."""
        if self._roots is not None:
            return self._roots
        from harness.store.index.database import IndexTrouble
        from harness.store.index.write import known_roots

        try:
            with self.database.reading() as connection:
                return {root: self._folder_of(root) for root in known_roots(connection)}
        except IndexTrouble:
            if not lenient:
                raise
            return {}
