"""Texts found by what they contain: by an index of trigrams, where the database has one.

SQLite's is an FTS5 table beside the texts, which knows only what text has what trigram (about a byte for each
character) and is told of changes, many at a time: triggers would have it write its parts anew for each row.
PostgreSQL's is a GIN index, where the extension pg_trgm was created in the database. A found text is always looked
into: the index narrows, and decides nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

_CONDITION = sa.types.NullType()
"""Of the functions below: SQLAlchemy would compare a Boolean with 1 in SQLite, and no index serves a comparison."""

_SQLITE_HAS = sqlite3.sqlite_version_info >= (3, 34)
"""The version that brought the tokenizer."""

_WIDTH = 3
_MOST = 8
"""Trigrams asked for: more of them narrow little, and each costs a walk over its texts."""

_SQLITE = (
    "CREATE VIRTUAL TABLE {name} USING fts5({column}, content='{table}', content_rowid='id', "
    "tokenize='trigram case_sensitive 1', detail='none', columnsize=0)"
)
_POSTGRES_EXTENSION = (
    "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace "
    "WHERE extname = 'pg_trgm'"
)
_POSTGRES = "CREATE INDEX {name} ON {table} USING gin ({column} {schema}.gin_trgm_ops)"


def contains(column: sa.ColumnElement[Any], text: str) -> sa.ColumnElement[Any]:
    """Whether a text contains another. Letters' case counts."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return text_contains(column, text, f"%{escaped}%")


class text_contains(GenericFunction[Any]):
    """Of a column, a text, and the same as a LIKE pattern, which is what PostgreSQL's index serves."""

    type = _CONDITION
    inherit_cache = True


@compiles(text_contains, "sqlite")
def _sqlite_contains(element: Any, compiler: Any, **options: Any) -> str:
    column, text, _ = (compiler.process(each, **options) for each in element.clauses)
    return f"(instr({column}, {text}) > 0)"


@compiles(text_contains, "postgresql")
def _postgres_contains(element: Any, compiler: Any, **options: Any) -> str:
    column, _, pattern = element.clauses
    return f"({compiler.process(column, **options)} LIKE {compiler.process(pattern, **options)})"


class among_hits(GenericFunction[Any]):
    """Whether the row of this id is one that the index of `texts` finds; true for a database that plans this itself."""

    type = _CONDITION
    inherit_cache = True


@compiles(among_hits, "sqlite")
def _sqlite_among_hits(element: Any, compiler: Any, **options: Any) -> str:
    row, wanted = element.clauses
    index = _name(row.table)
    row, wanted = (compiler.process(each, **options) for each in (row, wanted))
    return f"({row} IN (SELECT rowid FROM {index} WHERE {index} MATCH {wanted}))"  # noqa: S608 – a name of ours


@compiles(among_hits, "postgresql")
def _postgres_among_hits(element: Any, compiler: Any, **options: Any) -> str:
    return "true"


class likely(GenericFunction[Any]):
    """A condition that is no place to begin, for a planner which takes any index for a good one."""

    type = _CONDITION
    inherit_cache = True


@compiles(likely, "postgresql")
def _postgres_likely(element: Any, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.clauses, **options)})"


def narrowing(table: sa.Table, texts: Sequence[str]) -> sa.ColumnElement[bool] | None:
    """True at least for the rows whose text contains one of these; None where the index cannot tell."""
    if not _SQLITE_HAS or any(len(text) < _WIDTH for text in texts):
        return None
    return among_hits(table.c.id, " OR ".join(f"({_trigrams(text)})" for text in texts))


def _trigrams(text: str) -> str:
    """Some trigrams of a text, joined by "and", as FTS5 spells them."""
    starts = range(0, len(text) - _WIDTH + 1, -(-len(text) // _MOST))
    return " AND ".join('"{}"'.format(text[start : start + _WIDTH].replace('"', '""')) for start in starts)


def attach(table: sa.Table, column: str) -> None:
    """Give the texts of a table's column an index whenever the table is made. Its rows have an `id`."""
    names = {"name": _name(table), "table": table.name, "column": column}

    @sa.event.listens_for(table, "after_create")
    def _create(target: sa.Table, connection: sa.Connection, **_: Any) -> None:
        if connection.dialect.name == "sqlite":
            if _SQLITE_HAS:
                connection.exec_driver_sql(_SQLITE.format(**names))
        elif schema := connection.exec_driver_sql(_POSTGRES_EXTENSION).scalar():
            connection.exec_driver_sql(_POSTGRES.format(**names, schema=schema))


def enter(connection: sa.Connection, table: sa.Table, column: str, rows: sa.ColumnElement[bool]) -> None:
    """Take these rows' texts into the index. They are in the table already."""
    _tell(connection, table, column, rows)


def remove(connection: sa.Connection, table: sa.Table, column: str, rows: sa.ColumnElement[bool]) -> None:
    """Take these rows' texts out of the index. They are in the table still."""
    _tell(connection, table, column, rows, sa.literal("delete").label(_name(table)))


def _tell(connection: sa.Connection, table: sa.Table, column: str, rows: sa.ColumnElement[bool], *what: Any) -> None:
    if connection.dialect.name != "sqlite" or not _SQLITE_HAS:
        return
    told = sa.select(*what, table.c.id.label("rowid"), table.c[column]).where(rows, table.c[column].is_not(None))
    names = [each.name for each in told.selected_columns]
    index = sa.table(_name(table), *map(sa.column, names))
    connection.execute(index.insert().from_select(names, told))


def _name(table: sa.Table) -> str:
    return f"{table.name}_texts"
