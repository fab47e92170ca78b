"""A filter as a SELECT, for whichever database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from harness.failures import Outcome
from harness.store.index.fields import FIELDS, Place
from harness.store.index.filter import Filter, Term, Value
from harness.store.index.tables import behaviour, calls, labels, rewards, trials
from harness.store.index.text_index import contains, likely, narrowing

Condition = sa.ColumnElement[bool]


def select_trials(wanted: Filter, limit: int | None = None, offset: int = 0) -> sa.Select[Any]:
    """The trials that a filter describes, the latest first."""
    query = sa.select(*(column for column in trials.c if column.name != "id"))
    query = query.select_from(_source(wanted)).where(*conditions(wanted))
    return query.order_by(trials.c.started_at.desc().nulls_last(), trials.c.id.desc()).limit(limit).offset(offset)


def select_columns(wanted: Filter, names: Sequence[str]) -> sa.Select[Any]:
    """Only some columns of those trials, and of their behaviour, by folder."""
    chosen = [trials.c[name] if name in trials.c else behaviour.c[name] for name in names]
    source = trials.outerjoin(behaviour, behaviour.c.trial_id == trials.c.id)
    return sa.select(*chosen).select_from(source).where(*conditions(wanted)).order_by(trials.c.job, trials.c.trial)


def count_trials(wanted: Filter) -> sa.Select[Any]:
    """How many those are."""
    return sa.select(sa.func.count()).select_from(_source(wanted)).where(*conditions(wanted))


def state_of(wanted: Filter) -> sa.Select[Any]:
    """Two numbers that change whenever one of those trials comes, goes, or is read anew."""
    numbers: list[sa.ColumnElement[Any]] = [sa.func.count(), sa.func.max(trials.c.id)]
    return sa.select(*numbers).select_from(_source(wanted)).where(*conditions(wanted))


def count_by(wanted: Filter, name: str) -> sa.Select[Any]:
    """By each value of a column: trials, the mean reward of the scored ones, and how many had each outcome."""
    source = _source(wanted)
    key: sa.ColumnElement[Any]
    field = FIELDS[name]
    if field.place is Place.LABEL:
        ours = sa.and_(labels.c.trial_id == trials.c.id, labels.c.kind == field.column)
        source, key = source.outerjoin(labels, ours), labels.c.value
    else:
        key = trials.c[field.column]
    scored = trials.c.outcome == Outcome.SCORED.value
    outcomes = [
        sa.func.count(sa.case((trials.c.outcome == outcome.value, 1))).label(outcome.value) for outcome in Outcome
    ]
    mean = sa.func.avg(sa.case((scored, trials.c.reward))).label("mean_reward")
    query = sa.select(key.label(name), sa.func.count().label("trials"), mean, *outcomes).select_from(source)
    return query.where(*conditions(wanted)).group_by(key).order_by(key.nulls_last())


def _source(wanted: Filter) -> sa.FromClause:
    """Trials, with what a filter asks about them beside."""
    if any(term.field.place is Place.BEHAVIOUR for term in wanted.terms):
        return trials.outerjoin(behaviour, behaviour.c.trial_id == trials.c.id)
    return trials


def conditions(wanted: Filter) -> Sequence[Condition]:
    """What a trial must be."""
    found = [_condition(term) for term in wanted.terms if term.field.place is not Place.CALL]
    of_calls = [term for term in wanted.terms if term.field.place is Place.CALL]
    if of_calls:
        found.append(trials.c.id.in_(sa.select(calls.c.trial_id).where(*_of_call(of_calls))))
    return found


def _of_call(terms: Sequence[Term]) -> Sequence[Condition]:
    """What a call must be."""
    # Looking into a text costs most: last, for the fewest.
    ordered = sorted(terms, key=lambda term: "~" in term.op)
    compared = [_compare(calls.c[term.field.column], term) for term in ordered]
    within = (term for term in ordered if term.op == "~" and term.field.column == calls.c.command.name)
    hits = [narrowing(calls, [_text(value) for value in term.values if value is not None]) for term in within]
    known = [hit for hit in hits if hit is not None]
    return [*known, *map(likely, compared)] if known else compared


def _condition(term: Term) -> Condition:
    match term.field.place:
        case Place.TRIAL:
            return _compare(trials.c[term.field.column], term)
        case Place.LABEL:
            return _labelled(term)
        case Place.SUPERSEDED:
            return trials.c.id.in_(_superseded()) if _wants(term) else trials.c.id.not_in(_superseded())
        case Place.BEHAVIOUR:
            return _compare(behaviour.c[term.field.column], term)
        case _:
            return _rewarded(term)


def _rewarded(term: Term) -> Condition:
    """About a part of the reward; where there is no such part, it is unknown."""
    named = rewards.c.name == term.field.column
    holds = trials.c.id.in_(sa.select(rewards.c.trial_id).where(_compare(rewards.c.value, term), named))
    unknown = (term.op == "=" and None in term.values) or (term.op == "!=" and None not in term.values)
    return holds | trials.c.id.not_in(sa.select(rewards.c.trial_id).where(named)) if unknown else holds


def _labelled(term: Term) -> Condition:
    """About one of several labels; negated, about all of them."""
    # Asked trial by trial, in the order of time: most labels are common, and the first page is soon full.
    ours = sa.and_(labels.c.trial_id == trials.c.id, labels.c.kind == term.field.column)
    any_label = sa.exists().where(ours)
    positive = Term(term.field, term.op.removeprefix("!"), tuple(value for value in term.values if value is not None))
    found: Condition = sa.false()
    if positive.values:
        found = sa.exists().where(ours, _compare(labels.c.value, positive))
    if None in term.values:
        found = found | ~any_label
    return ~found if term.op.startswith("!") else found


def _superseded() -> sa.Select[Any]:
    """The executions that a later one of the same attempt replaced. Repetitions are few: they are where to begin."""
    later = trials.alias("later")
    same = [trials.c[name] == later.c[name] for name in ("root", "job", "task", "attempt")]
    return sa.select(trials.c.id).where(later.c.retry > 0, trials.c.retry < later.c.retry, *same)


def _wants(term: Term) -> bool:
    wanted = any(value is True for value in term.values)
    return wanted if term.op == "=" else not wanted


def _compare(column: sa.ColumnElement[Any], term: Term) -> Condition:
    known = [value for value in term.values if value is not None]
    match term.op:
        case "=" | "!=":
            found: Condition = column.in_(known) if known else sa.false()
            if None in term.values:
                found = sa.or_(found, column.is_(None))
            return found if term.op == "=" else sa.not_(sa.func.coalesce(found, sa.false()))
        case "~" | "!~":
            within = sa.or_(*(contains(column, _text(value)) for value in known))
            return within if term.op == "~" else sa.not_(sa.func.coalesce(within, sa.false()))
        case "<":
            return column < known[0]
        case "<=":
            return column <= known[0]
        case ">":
            return column > known[0]
        case _:
            return column >= known[0]


def _text(value: Value) -> str:
    return str(value)
