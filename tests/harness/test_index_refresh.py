"""The index follows the files: what it reads again, what it survives, and what it says about damage."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stored import trial, write_trajectory

from harness.store.index.database import Database, IndexMissing, IndexTrouble, default_path
from harness.store.trajectories import TrajectoryStore

REPO = Path(__file__).parents[2]
HARBOR = Path(__file__).parent / "data" / "harbor-jobs"


def refreshed(jobs: Path) -> TrajectoryStore:
    store = TrajectoryStore(jobs)
    store.refresh()
    return store


def dump(jobs: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything in the index but its numbering and the fingerprints."""
    connection = sqlite3.connect(default_path(jobs))
    try:
        found = {}
        for table in ("trials", "labels", "rewards", "behaviour", "calls"):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            kept = ", ".join(f"x.{name}" for name in columns if name not in ("id", "trial_id"))
            key = "id" if table == "trials" else "trial_id"
            query = f"SELECT f.job, f.trial, {kept} FROM {table} x JOIN files f ON f.id = x.{key}"
            found[table] = sorted(connection.execute(query), key=repr)
        return found
    finally:
        connection.close()


def test_only_what_is_new_or_changed_is_read_again(jobs_dir: Path) -> None:
    trial(jobs_dir, "a__1", reward=1.0)
    trial(jobs_dir, "b__1", reward=1.0)
    with TrajectoryStore(jobs_dir) as store:
        first = store.refresh()
        assert (first.added, first.changed, first.removed, first.trials) == (2, 0, 0, 2)
        assert store.refresh().added == 0
        trial(jobs_dir, "b__1", reward=0.25)
        trial(jobs_dir, "c__1", reward=0.5)
        shutil.rmtree(jobs_dir / "job" / "a__1")
        second = store.refresh()
        assert (second.added, second.changed, second.removed) == (1, 1, 1)
        assert {record.trial: record.row.reward for record in store.query()} == {"b__1": 0.25, "c__1": 0.5}
        shutil.rmtree(jobs_dir / "job")
        assert store.refresh().removed == 2


def test_an_index_that_grew_by_steps_equals_one_made_anew(jobs_dir: Path) -> None:
    rng = random.Random(1)
    with TrajectoryStore(jobs_dir) as store:
        for _ in range(6):
            for _ in range(8):
                name = f"t{rng.randrange(4)}__{rng.randrange(1, 4)}"
                calls = [("bash", f"echo {rng.random()}", rng.randrange(2))] * rng.randrange(3)
                trial(jobs_dir, name, job=f"j{rng.randrange(2)}", reward=rng.random(), calls=calls, categories=["x"])
            gone = rng.choice(sorted(jobs_dir.glob("j*/*")))
            shutil.rmtree(gone)
            store.refresh()
        grown = dump(jobs_dir)
        store.rebuild()
        assert dump(jobs_dir) == grown


@pytest.mark.case("E13")
def test_damage_is_counted_and_shown_and_never_stops_the_rest(jobs_dir: Path) -> None:
    trial(jobs_dir, "fine__1", reward=1.0, calls=[("bash", "ls", 0)])
    for name, content in {
        "cut__1": b'{"task_name": "x"',
        "empty__1": b"",
        "list__1": b"[1]",
        "binary__1": b"\xff\xfe\x00",
        "nan__1": b'{"reward": NaN}',
        "deep__1": b"[" * 200_000,
    }.items():
        (jobs_dir / "job" / name).mkdir(parents=True)
        (jobs_dir / "job" / name / "result.json").write_bytes(content)
    (jobs_dir / "job" / "link__1").mkdir()
    (jobs_dir / "job" / "link__1" / "result.json").symlink_to("/etc/passwd")
    (jobs_dir / "job" / "loop__1").symlink_to(jobs_dir)
    (jobs_dir / "job" / "running__1").mkdir()
    (jobs_dir / "job" / "running__1" / "trial.log").touch()
    os.mkdir(os.fsencode(jobs_dir / "job") + b"/odd\xff__1")  # noqa: PTH102 – a name that is no text
    shutil.copy(
        jobs_dir / "job" / "fine__1" / "result.json", os.fsencode(jobs_dir / "job") + b"/odd\xff__1/result.json"
    )
    with TrajectoryStore(jobs_dir) as store:
        done = store.refresh()
        assert (done.added, done.damaged, done.unfinished) == (8, 8, 1)
        assert any("cut__1/result.json: " in line for line in done.problems)
        assert [record.trial for record in store.query()] == ["fine__1"]
        assert store.refresh().added == 0, "what is damaged is not read again before it changes"
        found = store.sql("SELECT trial, problem FROM files WHERE problem IS NOT NULL ORDER BY trial")
        assert len(found.rows) == 7 and all("\n" not in str(row[1]) for row in found.rows)


def test_a_record_with_hostile_values_is_kept_as_far_as_it_goes(jobs_dir: Path) -> None:
    folder = trial(jobs_dir, "a__1", reward=1.0, calls=[("bash", "x" * 50_000 + "end", 0)])
    record = json.loads((folder / "result.json").read_text())
    record |= {"task_name": "nul \0 and \ud800", "seed": 10**30, "categories": ["c", "c"], "difficulty": "d" * 10_000}
    record["finished_at"] = "0001-01-01T00:00:00+14:00"
    record["step_results"] = [{"step_name": "../../../../etc"}, {"step_name": "one"}]
    (folder / "result.json").write_text(json.dumps(record))
    write_trajectory(folder / "steps" / "one" / "agent" / "trajectory.json", [("bash", "y" * 50_000, 0)])
    trial(jobs_dir, "b__1", attempt=10**30)
    with TrajectoryStore(jobs_dir) as store:
        done = store.refresh()
        assert done.added == 2
        rows = {record.trial: record.row for record in store.query()}
        if "a__1" in rows:
            assert rows["a__1"].task == "nul \ufffd and \ufffd" and rows["a__1"].seed is None
            assert len(str(rows["a__1"].difficulty)) == 500
        assert store.sql("SELECT max(length(command)) FROM calls").rows in ([(2000,)], [(None,)])


def test_a_trajectory_that_cannot_be_read_leaves_the_record_findable(jobs_dir: Path) -> None:
    folder = trial(jobs_dir, "a__1", reward=1.0, calls=[("bash", "ls", 0)])
    (folder / "agent" / "trajectory.json").write_text("{")
    with TrajectoryStore(jobs_dir) as store:
        done = store.refresh()
        assert done.damaged == 1 and "a__1/agent/trajectory.json: " in done.problems[0]
        assert store.count("outcome=scored") == 1


def test_jobs_that_harbor_wrote_are_indexed_with_attempts_numbered_and_behaviour_counted(jobs_dir: Path) -> None:
    shutil.copytree(HARBOR, jobs_dir, dirs_exist_ok=True)
    term = jobs_dir / "term1"
    shutil.copytree(term / "tt__c6ii2kd", term / "tt__zzz")
    with refreshed(jobs_dir) as store:
        assert store.count() == 21
        assert {record.trial: record.attempt for record in store.query("job=term1")} == {"tt__c6ii2kd": 1, "tt__zzz": 2}
        (record,) = store.query('job=term1 attempt=2 tool=bash_command command~"echo hello"')
        assert record.row.group_id == "acme--tt@c7eca01a864a" and record.row.reward == 1
        assert store.count("job=term1 turns>0") == 2
        shutil.rmtree(term / "tt__c6ii2kd")
        store.refresh()
        assert [record.attempt for record in store.query("job=term1")] == [1]


def test_a_folder_of_jobs_can_be_moved_with_its_index(jobs_dir: Path) -> None:
    trial(jobs_dir, "a__1", reward=1.0)
    refreshed(jobs_dir).close()
    moved = jobs_dir.rename(jobs_dir.with_name("moved"))
    with TrajectoryStore(moved) as store:
        assert store.refresh().added == 0
        (record,) = store.query()
        assert record.result().reward == 1.0


def test_an_older_index_is_made_anew_and_that_is_said(jobs_dir: Path) -> None:
    trial(jobs_dir, "a__1", reward=1.0)
    refreshed(jobs_dir).close()
    with sqlite3.connect(default_path(jobs_dir)) as connection:
        connection.execute("UPDATE meta SET value = '0.old' WHERE key = 'schema'")
        connection.execute("ALTER TABLE trials DROP COLUMN seconds")
    connection.close()
    with TrajectoryStore(jobs_dir) as store:
        with pytest.raises(IndexMissing, match="of version 0"):
            store.count()
        done = store.refresh()
        assert done.note is not None and "of version 0.old" in done.note and done.added == 1
        assert store.count("seconds=60") == 1


def test_a_damaged_index_says_how_to_mend_it_and_a_rebuild_does(jobs_dir: Path) -> None:
    trial(jobs_dir, "a__1", reward=1.0)
    refreshed(jobs_dir).close()
    default_path(jobs_dir).write_bytes(b"this is no database" * 1000)
    with TrajectoryStore(jobs_dir) as store:
        with pytest.raises(IndexTrouble, match="harness index --rebuild"):
            store.refresh()
        assert store.rebuild().added == 1


@pytest.mark.parametrize("anew", [False, True])
def test_a_file_that_is_something_else_is_refused_and_left_as_it_is(tmp_path: Path, anew: bool) -> None:
    notes, other = tmp_path / "notes.txt", tmp_path / "other.sqlite"
    notes.write_text("my notes\n" * 1000)
    for statement in ("CREATE TABLE meta (key TEXT, value TEXT)", "INSERT INTO meta VALUES ('title', 'my own')"):
        with sqlite3.connect(other) as connection:
            connection.execute(statement)
        connection.close()
    for place, says in ((notes, "not a database; name another file"), (other, "is a database of something else")):
        with pytest.raises(IndexTrouble, match=says):
            Database(place).prepare(anew=anew)
    assert notes.read_text() == "my notes\n" * 1000
    with sqlite3.connect(other) as connection:
        assert connection.execute("SELECT * FROM meta").fetchall() == [("title", "my own")]
    connection.close()


def test_a_refresh_that_runs_out_of_time_goes_on_where_it_stopped(jobs_dir: Path) -> None:
    for number in range(3):
        trial(jobs_dir, "a__1", job=f"j{number}", reward=1.0)
    with TrajectoryStore(jobs_dir) as store:
        done = store.refresh(budget_sec=0)
        assert not done.complete and done.behind_jobs == 3
        assert store.refresh().complete and store.count() == 3


ONE_INDEXER = """
import sys
from harness.store.index import refresh
from harness.store.trajectories import TrajectoryStore
refresh.BATCH = 10
TrajectoryStore(sys.argv[1]).refresh()
"""
MANY = 150


def indexer(jobs: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", ONE_INDEXER, str(jobs)]
    return subprocess.Popen(argv, cwd=REPO, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_indexers_at_once_make_one_index(jobs_dir: Path) -> None:
    for number in range(MANY):
        trial(jobs_dir, f"t{number}__1", reward=1.0, calls=[("bash", "ls", 0)])
    for each in [indexer(jobs_dir), indexer(jobs_dir)]:
        _, errors = each.communicate(timeout=60)
        assert each.returncode == 0, errors
    together = dump(jobs_dir)
    with TrajectoryStore(jobs_dir) as store:
        assert store.count() == MANY and store.count("tool=bash") == MANY
        store.rebuild()
    assert dump(jobs_dir) == together


@pytest.mark.slow
def test_an_indexer_killed_at_any_moment_leaves_an_index_that_the_next_one_completes(jobs_dir: Path) -> None:
    for number in range(MANY):
        trial(jobs_dir, f"t{number}__1", reward=1.0, calls=[("bash", "ls", 0)] * 2)
    interrupted = 0
    for delay in (0.0, 0.03, 0.1):
        shutil.rmtree(jobs_dir / ".harness", ignore_errors=True)
        process = indexer(jobs_dir)
        while not default_path(jobs_dir).with_name("index.sqlite-wal").exists() and process.poll() is None:
            time.sleep(0.001)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with TrajectoryStore(jobs_dir) as store:
            interrupted += store.refresh().added > 0
            assert store.count() == MANY
            assert store.sql("SELECT count(*) FROM calls").rows == [(2 * MANY,)]
            assert store.sql("SELECT count(*) FROM trials WHERE id NOT IN (SELECT id FROM files)").rows == [(0,)]
    assert interrupted
