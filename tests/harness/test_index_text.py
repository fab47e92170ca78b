"""Text inside commands: the index of trigrams finds what Python's `in` finds, and follows every change."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from postgres_server import binaries, postgres
from stored import trial

from harness.store.index.database import default_path
from harness.store.index.fields import field_of
from harness.store.index.filter import Filter, Term
from harness.store.index.select import select_trials
from harness.store.trajectories import TrajectoryStore

COMMANDS = (
    'grep "a b" *.py',
    "echo 100%_x [a-z]? \\n 'it''s'",
    "rm -rf /app\nls -la",
    "printf ünïcode 🎉🎉🎉",
    "RM -RF /APP",
    "python3 -m pytest -q tests/test_index_text.py tests/test_index_query.py",
    "AND OR NOT NEAR(x) a:b ^c",
    "ls",
    "",
)
TEXTS = {
    command[start : start + width]
    for command in COMMANDS
    for width in (1, 2, 3, 4, 7, 60)
    for start in range(0, max(1, len(command) - width + 1))
} | {"zzz", "rm -RF", "_x [", "100__x", "ls%", "*.p?"}


def wanted(*texts: str, exit_code: int | None = None) -> Filter:
    terms = [Term(field_of("command"), "~", texts)]
    if exit_code is not None:
        terms.append(Term(field_of("exit"), "=", (float(exit_code),)))
    return Filter(tuple(terms))


def found(store: TrajectoryStore, asked: Filter) -> set[str]:
    with store.database.reading() as connection:
        return {row.task for row in connection.execute(select_trials(asked))}


def plan(store: TrajectoryStore, asked: Filter, explain: str) -> str:
    with store.database.reading() as connection:
        if store.database.path is None:
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off")
        text = select_trials(asked).compile(connection, compile_kwargs={"literal_binds": True})
        return "\n".join(str(row) for row in connection.execute(sa.text(f"{explain} {text}".replace(":", r"\:"))))


def write(jobs: Path) -> None:
    for number, command in enumerate(COMMANDS):
        trial(jobs, f"t{number}__1", reward=1.0, calls=[("bash", command, number % 2), ("read", command, 0)])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrajectoryStore]:
    jobs = tmp_path_factory.mktemp("jobs")
    write(jobs)
    with TrajectoryStore(jobs) as store:
        store.refresh()
        yield store


def assert_finds_what_python_finds(store: TrajectoryStore) -> None:
    for text in TEXTS:
        assert found(store, wanted(text)) == {f"t{i}" for i, command in enumerate(COMMANDS) if text in command}, text


def test_a_text_is_found_wherever_it_is_and_nowhere_else(store: TrajectoryStore) -> None:
    assert_finds_what_python_finds(store)


def test_alternatives_and_other_terms_are_about_the_same_call(store: TrajectoryStore) -> None:
    assert found(store, wanted("rm -rf", "pytest")) == {"t2", "t5"}
    assert found(store, wanted("rm -rf", "pytest", exit_code=1)) == {"t5"}
    assert found(store, wanted("ls")) == found(store, wanted("ls", "zzz")) == {"t2", "t7"}


def test_a_query_by_text_begins_at_the_text(store: TrajectoryStore) -> None:
    assert "calls_texts" in plan(store, wanted("rm -rf", exit_code=1), "EXPLAIN QUERY PLAN")
    assert "calls_by_exit" not in plan(store, wanted("rm -rf", exit_code=1), "EXPLAIN QUERY PLAN")
    assert "calls_texts" not in plan(store, wanted("ls"), "EXPLAIN QUERY PLAN"), "two letters are no trigram"


def test_what_is_changed_removed_and_made_anew_is_so_in_the_text_index(jobs_dir: Path) -> None:
    rng = random.Random(3)
    with TrajectoryStore(jobs_dir) as store:
        for turn in range(4):
            for _ in range(6):
                calls = [("bash", rng.choice(COMMANDS), 0)] * rng.randrange(3)
                trial(jobs_dir, f"t{rng.randrange(8)}__1", reward=rng.random(), calls=calls)
            store.refresh()
            connection = sqlite3.connect(default_path(jobs_dir))
            connection.execute("INSERT INTO calls_texts (calls_texts, rank) VALUES ('integrity-check', 1)")
            connection.close()
            if turn == 2:
                store.rebuild()


@pytest.mark.slow
@pytest.mark.skipif(binaries() is None, reason="no PostgreSQL server is installed (postgresql)")
def test_postgresql_has_the_same_where_its_extension_is(jobs_dir: Path) -> None:
    write(jobs_dir)
    with postgres() as url, TrajectoryStore(jobs_dir, db=url) as store:
        store.refresh()
        assert "calls_texts" not in plan(store, wanted("rm -rf"), "EXPLAIN")
        with store.database.writing() as connection:
            connection.exec_driver_sql("CREATE EXTENSION pg_trgm SCHEMA public")
        store.rebuild()
        assert "calls_texts" in plan(store, wanted("rm -rf"), "EXPLAIN")
        assert_finds_what_python_finds(store)
