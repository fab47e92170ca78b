"""What is written into an index, a transaction for a batch: a trial's rows are all there, or none is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import sqlalchemy as sa

from harness.store.index import text_index
from harness.store.index.rows import CallRow, Entry, TrialRow
from harness.store.index.tables import OF_A_TRIAL, behaviour, calls, files, labels, rewards, trials

_TRIAL_FIELDS = tuple(each.name for each in fields(TrialRow))
_CALL_FIELDS = tuple(each.name for each in fields(CallRow))
_PER_STATEMENT = 500


@dataclass(frozen=True, slots=True)
class Looked:
    """A trial's folder that was looked at; without an entry where its record could not be read."""

    trial: str
    fingerprint: str
    entry: Entry | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class Known:
    """A trial's folder as the index knows it."""

    id: int
    fingerprint: str


def known_roots(connection: sa.Connection) -> list[str]:
    """The folders of jobs that the index has trials of."""
    return list(connection.scalars(sa.select(files.c.root).distinct().order_by(files.c.root)))


def known_jobs(connection: sa.Connection, root: str) -> set[str]:
    """The jobs that the index has trials of."""
    return set(connection.scalars(sa.select(files.c.job).where(files.c.root == root).distinct()))


def known_trials(connection: sa.Connection, root: str, job: str) -> dict[str, Known]:
    """A job's trials, by folder."""
    query = sa.select(files.c.trial, files.c.id, files.c.fingerprint).where(files.c.root == root, files.c.job == job)
    return {trial: Known(number, fingerprint) for trial, number, fingerprint in connection.execute(query)}


def put(connection: sa.Connection, root: str, job: str, batch: Sequence[Looked]) -> None:
    """Enter these trials, in place of what was known of them. The connection is the only writer."""
    known = known_trials(connection, root, job)
    forget(connection, [known[each.trial].id for each in batch if each.trial in known])
    first = (connection.scalar(sa.select(sa.func.max(files.c.id))) or 0) + 1
    rows: dict[sa.Table, list[dict[str, Any]]] = defaultdict(list)
    for number, looked in enumerate(batch, first):
        rows[files].append(
            {
                "id": number,
                "root": root,
                "job": job,
                "trial": looked.trial,
                "fingerprint": looked.fingerprint,
                "problem": looked.problem,
            }
        )
        if looked.entry is not None:
            _add(rows, number, looked.entry)
    for table, values in rows.items():
        connection.execute(table.insert(), values)
    text_index.enter(connection, calls, "command", calls.c.trial_id >= first)
    if any(each.entry is not None and not each.entry.row.numbered for each in batch):
        number_attempts(connection, root, job)


def _add(rows: dict[sa.Table, list[dict[str, Any]]], number: int, entry: Entry) -> None:
    row = entry.row
    rows[trials].append({"id": number, **{name: getattr(row, name) for name in _TRIAL_FIELDS}})
    for kind, values in (("category", row.categories), ("tag", row.tags)):
        rows[labels] += [{"kind": kind, "value": value, "trial_id": number} for value in values]
    rows[rewards] += [{"trial_id": number, "name": name, "value": value} for name, value in entry.rewards.items()]
    if entry.behaviour is not None:
        rows[behaviour].append({"trial_id": number, **entry.behaviour})
    rows[calls] += [
        {"trial_id": number, **{name: getattr(call, name) for name in _CALL_FIELDS}} for call in entry.calls
    ]
    for table in (labels, rewards, calls):
        if not rows[table]:
            del rows[table]


def forget(connection: sa.Connection, ids: Iterable[int]) -> None:
    """Remove everything about these trials."""
    remaining = iter(ids)
    while some := list(islice(remaining, _PER_STATEMENT)):
        text_index.remove(connection, calls, "command", calls.c.trial_id.in_(some))
        for table in OF_A_TRIAL:
            connection.execute(table.delete().where(table.c.trial_id.in_(some)))
        for table in (trials, files):
            connection.execute(table.delete().where(table.c.id.in_(some)))


def number_attempts(connection: sa.Connection, root: str, job: str) -> None:
    """Number the attempts whose records do not, per task, in the order of their folders."""
    query = (
        sa.select(trials.c.id, trials.c.task, trials.c.attempt)
        .where(trials.c.root == root, trials.c.job == job, sa.not_(trials.c.numbered))
        .order_by(trials.c.trial)
    )
    counts: dict[str, int] = defaultdict(int)
    renumbered = []
    for number, task, attempt in connection.execute(query):
        counts[task] += 1
        if attempt != counts[task]:
            renumbered.append({"of": number, "now": counts[task]})
    if renumbered:
        update = trials.update().where(trials.c.id == sa.bindparam("of")).values(attempt=sa.bindparam("now"))
        connection.execute(update, renumbered)
