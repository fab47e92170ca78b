"""The database behind an index: SQLite in a file, or PostgreSQL by its URL.

There is one writer at a time, in any process: a writing transaction begins by taking the lock. In SQLite that is the
file's (readers never wait for it, and it never for them: WAL); in PostgreSQL an advisory one. What a killed process had
not committed was never there.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError, first_line

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

FOLDER = ".harness"
FILE = "index.sqlite"
LOCK_SEC = 60.0
"""How long a writer waits for another one."""

_ADVISORY_LOCK = 0x6861726E657373
_POSTGRES_SCHEMA = "harness"
_DAMAGE = ("malformed", "not a database", "disk image")
_SQLITE_MAGIC = b"SQLite format 3\0"


class IndexTrouble(UsageError):
    """The database cannot be opened, read or written."""


class IndexMissing(IndexTrouble):
    """There is no index yet, or one that this version does not read."""


def default_path(jobs_dir: Path) -> Path:
    """Where the index of a folder of jobs lies."""
    return jobs_dir / FOLDER / FILE


def is_url(place: str) -> bool:
    """Whether a place is a database's URL, and no path."""
    return "://" in place


class Database:
    """One index. Opens nothing before it is used; may be used from several threads."""

    def __init__(self, place: str | Path) -> None:
        """`place`: a SQLite file, or the URL of a PostgreSQL database. Raises UsageError for another URL."""
        url = _url(str(place))
        self.sqlite = url.get_backend_name() == "sqlite"
        self.path = Path(url.database or "") if self.sqlite else None
        self.name = str(self.path) if self.sqlite else url.render_as_string(hide_password=True)
        """As it may be shown: without a password."""
        self._url = url
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The connections."""
        if self._engine is None:
            self._engine = _sqlite_engine(self._url) if self.sqlite else _postgres_engine(self._url)
        return self._engine

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection whose reads see one state. Raises IndexMissing and IndexTrouble."""
        if self.path is not None and not self.path.is_file():
            raise IndexMissing(f"there is no index at {self.path}; make it: harness index")
        with self._trouble(), self.engine.connect() as connection:
            found = _version_of(connection)
            if found != _current():
                state = "is empty" if found is None else f"is of version {found}, this program reads {_current()}"
                raise IndexMissing(f"the index at {self.name} {state}; make it anew: harness index")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction of the only writer, committed at the block's end. Raises IndexTrouble."""
        with self._trouble(), self.engine.connect().execution_options(writes=True) as connection:
            if not self.sqlite:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
            yield connection
            connection.commit()

    def prepare(self, *, anew: bool = False) -> str | None:
        """Make the tables where there are none, or none of this version; return a line where others were replaced.

        `anew` replaces them in any case, and a damaged file by a new one. Raises IndexTrouble: then nothing is removed,
        as where the file is something else than an index.
        """
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise IndexTrouble(f"{self.path.parent} cannot be made: {error.strerror}") from None
        try:
            return self._prepare(anew)
        except IndexTrouble as trouble:
            damaged = any(word in str(trouble) for word in _DAMAGE)
            if not (anew and damaged and self.path is not None and _may_be_index(self.path)):
                raise
            self.close()
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
            self._prepare(anew)
            return "the index was damaged: made anew"

    def _prepare(self, anew: bool) -> str | None:
        from harness.store.index.tables import meta, metadata

        with self.writing() as connection:
            found = _version_of(connection)
            if found == _current() and not anew:
                return None
            if found is None and self.sqlite and _has_tables(connection):
                raise IndexTrouble(f"{self.name} is a database of something else; name another file with --db")
            _drop_all(connection)
            metadata.create_all(connection)
            connection.execute(meta.insert(), {"key": "schema", "value": _current()})
        if found is None or anew:
            return None
        return f"the index was of version {found} and is now of {_current()}: made anew"

    def close(self) -> None:
        """Close the connections. Idempotent; the database opens again when it is used."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        """What the database refuses, in one line."""
        import sqlalchemy as sa

        try:
            yield
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            text = first_line(getattr(error, "orig", None) or error)
            if self.path is not None and any(word in text for word in _DAMAGE):
                ours = _may_be_index(self.path)
                text += "; make it anew: harness index --rebuild" if ours else "; name another file with --db"
            elif self.sqlite and "locked" in text:
                text = f"another process has been writing it for {LOCK_SEC:g} s"
            raise IndexTrouble(f"index {self.name}: {text}") from error


def _current() -> str:
    from harness.store.index.tables import schema_version

    return schema_version()


def _version_of(connection: Connection) -> str | None:
    """The version of the index that is there; None for none, and for tables of something else."""
    import sqlalchemy as sa

    from harness.store.index.tables import meta

    if not sa.inspect(connection).has_table(meta.name):
        return None
    return connection.scalar(sa.select(meta.c.value).where(meta.c.key == "schema"))


def _has_tables(connection: Connection) -> bool:
    import sqlalchemy as sa

    return bool(sa.inspect(connection).get_table_names())


def _may_be_index(path: Path) -> bool:
    """Whether a file that is no sound database may be a damaged index, and not something else of the user's."""
    if path.parent.name == FOLDER:
        return True
    with path.open("rb") as file:
        return file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC


def _drop_all(connection: Connection) -> None:
    """Drop what another version made, too: in a file of ours, and in a schema of ours, everything is ours."""
    import sqlalchemy as sa

    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"DROP SCHEMA IF EXISTS {_POSTGRES_SCHEMA} CASCADE")
        connection.exec_driver_sql(f"CREATE SCHEMA {_POSTGRES_SCHEMA}")
        return
    quote = connection.dialect.identifier_preparer.quote
    for name in sorted(sa.inspect(connection).get_table_names()):  # a virtual one before its parts, which go with it
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {quote(name)}")


def _url(place: str) -> URL:
    try:
        import sqlalchemy as sa
    except ImportError as error:
        raise UsageError("the index needs: pip install 'harness-rl[store]'") from error
    if not is_url(place):
        return sa.URL.create("sqlite", database=place)
    try:
        url = sa.make_url(place)
    except sa.exc.ArgumentError:
        raise UsageError("the index's URL cannot be read; it is like postgresql://user@host/database") from None
    backend = "postgresql" if url.drivername == "postgres" else url.get_backend_name()
    if backend == "sqlite" and url.database:
        return sa.URL.create("sqlite", database=url.database)
    if backend != "postgresql":
        raise UsageError(f"an index lies in a SQLite file or in PostgreSQL (postgresql://...), not in {backend!r}")
    return url.set(drivername="postgresql+psycopg")


def _sqlite_engine(url: URL) -> Engine:
    import sqlalchemy as sa

    engine = sa.create_engine(url, connect_args={"timeout": LOCK_SEC})

    @sa.event.listens_for(engine, "connect")
    def _set_up(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions begin as said below, not as the driver thinks
        connection.execute(f"PRAGMA busy_timeout={int(LOCK_SEC * 1000)}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")  # a power cut may cost the last updates, never the file
        connection.execute("PRAGMA cache_size=-65536")
        connection.execute("PRAGMA mmap_size=1073741824")
        connection.execute("PRAGMA temp_store=MEMORY")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgres_engine(url: URL) -> Engine:
    import sqlalchemy as sa

    try:
        import psycopg  # noqa: F401 – asked for here, so that its absence is told apart from a wrong URL
    except ImportError as error:
        raise UsageError("an index in PostgreSQL needs: pip install 'harness-rl[postgres]'") from error
    options = f"{os.environ.get('PGOPTIONS', '')} -c search_path={_POSTGRES_SCHEMA}".strip()
    return sa.create_engine(url, connect_args={"options": options, "connect_timeout": 10}, pool_pre_ping=True)
