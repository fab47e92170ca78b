"""Somebody's own SQL on an index: one query, which reads only, for so long, and so many rows."""

from __future__ import annotations

import re
import sqlite3
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from harness import strict_json
from harness.errors import UsageError, first_line
from harness.store.index.database import Database

_READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_STEPS_BETWEEN_LOOKS = 10_000
_QUERY = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(?:select|with|values)\b", re.IGNORECASE | re.DOTALL)


class SqlRefused(UsageError):
    """The statement is no query, is wrong, or took too long."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows under their columns' names; `cut` where there were more."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    cut: bool


def run_sql(database: Database, statement: str, *, limit: int | None, timeout_sec: float) -> Answer:
    """The rows of a query. Raises SqlRefused, and IndexTrouble for an index that cannot be read."""
    statement = strict_json.whole(statement)
    if not _QUERY.match(statement):
        raise SqlRefused("--sql takes one query that reads: SELECT ..., WITH ... or VALUES ...")
    with database.reading():  # there is an index, and of this version
        pass
    if database.path is not None:
        return _sqlite(str(database.path), statement, limit, timeout_sec)
    return _postgres(database, statement.strip().rstrip(";"), limit, timeout_sec)


def _sqlite(path: str, statement: str, limit: int | None, timeout_sec: float) -> Answer:
    connection = sqlite3.connect(path, timeout=timeout_sec, isolation_level=None)
    deadline = time.monotonic() + timeout_sec
    try:
        connection.execute("PRAGMA query_only=1")
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY)
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_LOOKS)
        cursor = connection.execute(statement)
        return _answer(tuple(each[0] for each in cursor.description or ()), cursor, limit)
    except (sqlite3.Error, sqlite3.Warning) as error:
        interrupted = "interrupted" in str(error)
        raise SqlRefused(f"the query took longer than {timeout_sec:g} s" if interrupted else f"SQL: {error}") from None
    finally:
        connection.close()


def _postgres(database: Database, statement: str, limit: int | None, timeout_sec: float) -> Answer:
    """A cursor takes nothing but a query, and a prepared statement nothing but one of it."""
    import psycopg

    connection = database.engine.raw_connection()
    try:
        driver: Any = connection.driver_connection
        with driver.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(f"SET LOCAL statement_timeout = {max(1, int(timeout_sec * 1000))}")
            cursor.execute(f"DECLARE asked NO SCROLL CURSOR FOR {statement}", prepare=True)
            cursor.execute(f"FETCH {'ALL' if limit is None else limit + 1} FROM asked")
            return _answer(tuple(each.name for each in cursor.description or ()), cursor, limit)
    except psycopg.errors.QueryCanceled:
        raise SqlRefused(f"the query took longer than {timeout_sec:g} s") from None
    except psycopg.Error as error:
        raise SqlRefused(f"SQL: {first_line(error)}") from None
    finally:
        connection.rollback()
        connection.close()


def _answer(columns: tuple[str, ...], cursor: Any, limit: int | None) -> Answer:
    rows = [tuple(map(_plain, row)) for row in (cursor.fetchall() if limit is None else cursor.fetchmany(limit + 1))]
    return Answer(columns, rows if limit is None else rows[:limit], limit is not None and len(rows) > limit)


def _plain(value: Any) -> Any:
    """PostgreSQL's means of whole numbers are decimals."""
    return float(value) if isinstance(value, Decimal) else value
