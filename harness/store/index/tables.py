"""The tables, made from what `rows` and `Behaviour` declare: a new field there is a new column here.

    files       one row for each trial's folder that was looked at: its fingerprint, and what is wrong with it
    trials      one for each of those whose record can be read
    labels      (kind, value): its categories and tags
    rewards     (name, value): the parts of its reward
    behaviour   the numbers of its behaviour
    calls       its tool calls, in order

`id` of files and trials, and `trial_id` of the others, are the same number. The texts of commands have an index of
their own, `text_index`.
"""

from __future__ import annotations

import zlib
from dataclasses import fields
from typing import Any, get_type_hints

import sqlalchemy as sa

from harness.records import Behaviour
from harness.store.index import text_index
from harness.store.index.rows import CallRow, TrialRow

LAYOUT = 1
"""Raised when what is stored changes its meaning; new and dropped columns are noticed without it."""

_TYPES: dict[Any, type[sa.types.TypeEngine[Any]]] = {
    str: sa.Text,
    int: sa.BigInteger,
    float: sa.Double,
    bool: sa.Boolean,
    list[str]: sa.JSON,
}


def _columns(row: type) -> list[sa.Column[Any]]:
    hints = get_type_hints(row)
    return [_column(each.name, hints[each.name]) for each in fields(row)]


def _column(name: str, hint: Any) -> sa.Column[Any]:
    known = next(each for each in (hint, *getattr(hint, "__args__", ())) if each in _TYPES)
    return sa.Column(name, _TYPES[known], nullable=known is not hint)


def _number(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Double if name.endswith("_sec") else sa.BigInteger)


metadata = sa.MetaData()

meta = sa.Table("meta", metadata, sa.Column("key", sa.Text, primary_key=True), sa.Column("value", sa.Text))

files = sa.Table(
    "files",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("root", sa.Text, nullable=False),
    sa.Column("job", sa.Text, nullable=False),
    sa.Column("trial", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("problem", sa.Text),
    sa.UniqueConstraint("root", "job", "trial"),
)

trials = sa.Table(
    "trials",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    *_columns(TrialRow),
    sa.Index("trials_by_attempt", "root", "job", "task", "attempt", "retry"),
    sa.Index("trials_by_time", "started_at"),
    sa.Index("trials_by_task", "task"),
)

_TRIAL_ID = ("trial_id", sa.Integer)

labels = sa.Table(
    "labels",
    metadata,
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, primary_key=True),
    sa.Column(*_TRIAL_ID, primary_key=True, index=True),
    sqlite_with_rowid=False,
)

rewards = sa.Table(
    "rewards",
    metadata,
    sa.Column(*_TRIAL_ID, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
    sqlite_with_rowid=False,
)

behaviour = sa.Table(
    "behaviour",
    metadata,
    sa.Column(*_TRIAL_ID, primary_key=True, autoincrement=False),
    *(_number(name) for name in Behaviour.model_fields),
)

calls = sa.Table(
    "calls",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column(*_TRIAL_ID, nullable=False, index=True),
    *_columns(CallRow),
    sa.Index("calls_by_exit", "exit_code", "tool", "trial_id"),
)
text_index.attach(calls, "command")

OF_A_TRIAL = (labels, rewards, behaviour, calls)
"""What hangs on a trial by `trial_id`."""


def schema_version() -> str:
    """Differs between indexes that hold different columns."""
    shape = ";".join(f"{table.name}:{','.join(table.columns.keys())}" for table in metadata.sorted_tables)
    return f"{LAYOUT}.{zlib.crc32(shape.encode()):08x}"
