"""What a query finds: every kind of term, on a SQLite file and, where one is installed, on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import binaries, postgres
from stored import trial

from harness.errors import UsageError
from harness.failures import FailureCategory, Layer, Outcome
from harness.records import Behaviour, Failure, SandboxRecord
from harness.store.index.sql import SqlRefused
from harness.store.trajectories import TrajectoryStore

SERVER = pytest.param(
    "postgres",
    marks=[
        pytest.mark.slow,
        pytest.mark.skipif(binaries() is None, reason="no PostgreSQL server is installed (postgresql)"),
    ],
)


@pytest.fixture(scope="module", params=["sqlite", SERVER])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrajectoryStore]:
    jobs = tmp_path_factory.mktemp("jobs")
    write(jobs)
    if request.param == "sqlite":
        with TrajectoryStore(jobs) as found:
            found.refresh()
            yield found
        return
    with postgres() as url, TrajectoryStore(jobs, db=url) as found:
        found.refresh()
        yield found


def write(jobs: Path) -> None:
    trial(
        jobs,
        "alpha__1",
        reward=1.0,
        rewards={"style": 0.25},
        calls=[("bash", "git status", 0), ("bash", "rm -rf /tmp/100%_x", 1)],
        categories=["memory", "coding"],
        task_tags=["long"],
        policy_version="step-7",
        group_id="g1",
        seed=3,
        behaviour=Behaviour(turns=4, loops=0, failed_calls=2, steps=5),
        sandbox=SandboxRecord(backend="docker", isolation="container", id="x"),
        started_at="2026-11-03T00:00:00+02:00",
    )
    trial(jobs, "alpha__2", reward=0.0, calls=[("bash", "ls", 1), ("read", "rm -rf", 0)], categories=["memory"])
    trial(jobs, "beta__1r1", reward=0.5, agent="other", behaviour=Behaviour(turns=1, loops=3))
    failure = Failure(
        category=FailureCategory.INFRA_SANDBOX,
        layer=Layer.SANDBOX,
        tag="sandbox_unavailable",
        retryable=True,
        trainable=False,
    )
    trial(jobs, "beta__1", outcome=Outcome.INFRA_ERROR, failure=failure, agent="other", started_at=None)
    trial(
        jobs, "gämma__1", job="second", outcome=Outcome.AGENT_FAILED, difficulty="hard", calls=[("bash", "ünïcode", 0)]
    )


def names(store: TrajectoryStore, text: str) -> set[str]:
    found = {record.trial for record in store.query(text)}
    assert store.count(text) == len(found)
    return found


ALL = {"alpha__1", "alpha__2", "beta__1", "beta__1r1", "gämma__1"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ALL),
        ("outcome=scored", {"alpha__1", "alpha__2", "beta__1r1"}),
        ("outcome=scored,agent_failed", ALL - {"beta__1"}),
        ("outcome!=scored", {"beta__1", "gämma__1"}),
        ("reward>=0.5", {"alpha__1", "beta__1r1"}),
        ("reward=0", {"alpha__2"}),
        ("reward=none", {"beta__1", "gämma__1"}),
        ("reward!=1", ALL - {"alpha__1"}),
        ("reward!=none", {"alpha__1", "alpha__2", "beta__1r1"}),
        ("reward!=1,none", {"alpha__2", "beta__1r1"}),
        ("reward.style>0.2", {"alpha__1"}),
        ("reward.style=none", ALL - {"alpha__1"}),
        ("category=memory", {"alpha__1", "alpha__2"}),
        ("category!=coding", ALL - {"alpha__1"}),
        ("category=none", ALL - {"alpha__1", "alpha__2"}),
        ("category~mem category~cod", {"alpha__1"}),
        ("category!~cod", ALL - {"alpha__1"}),
        ("tag=long", {"alpha__1"}),
        ("failure=infra_sandbox failure_layer=sandbox failure_tag~unavail", {"beta__1"}),
        ("failure!=infra_sandbox", ALL - {"beta__1"}),
        ("superseded=yes", {"beta__1"}),
        ("superseded=no", ALL - {"beta__1"}),
        ("superseded!=yes task=beta", {"beta__1r1"}),
        ("tool=bash exit=1", {"alpha__1", "alpha__2"}),
        ('command~"rm -rf"', {"alpha__1"}),
        ('tool=bash command~"100%_x" exit=1', {"alpha__1"}),
        ("command~GIT", set()),
        ("command=ls", {"alpha__2"}),
        ("tool=read exit=1", set()),
        ("tool!=bash", {"alpha__2"}),
        ("exit!=0,none", {"alpha__1", "alpha__2"}),
        ("command~ünï", {"gämma__1"}),
        ("task=gämma", {"gämma__1"}),
        ("loops>=1", {"beta__1r1"}),
        ("loops=0 failed_calls=2", {"alpha__1"}),
        ("agent=other", {"beta__1", "beta__1r1"}),
        ("job=second", {"gämma__1"}),
        ("policy_version=step-7 group=g1 seed=3 backend=docker isolation!=none", {"alpha__1"}),
        ("group=none", set()),
        ("difficulty=hard", {"gämma__1"}),
        ("since=2026-11-02", {"alpha__1"}),
        ("until=2026-11-02", ALL - {"alpha__1", "beta__1"}),
        ("started_at=none", {"beta__1"}),
        ("seconds=60 retry=1", {"beta__1r1"}),
    ],
)
def test_a_term_finds_exactly_what_it_says(store: TrajectoryStore, text: str, found: set[str]) -> None:
    assert names(store, text) == found


def test_the_latest_come_first_and_the_undated_last(store: TrajectoryStore) -> None:
    order = [record.trial for record in store.query()]
    assert order[0] == "alpha__1" and order[-1] == "beta__1"
    assert [record.trial for record in store.query(limit=1)] == ["alpha__1"]


def test_counting_tells_trials_outcomes_and_the_mean_reward_of_the_scored(store: TrajectoryStore) -> None:
    by_task = {row["task"]: row for row in store.counts("by:task")}
    assert (by_task["alpha"]["trials"], by_task["alpha"]["mean_reward"]) == (2, 0.5)
    assert (by_task["beta"]["infra_error"], by_task["beta"]["mean_reward"]) == (1, 0.5)
    assert by_task["gämma"]["mean_reward"] is None
    by_category = {row["category"]: row["trials"] for row in store.counts("by:category")}
    assert by_category == {"coding": 1, "memory": 2, None: 3}


def test_a_record_reads_its_files_when_asked(store: TrajectoryStore) -> None:
    (record,) = store.query("reward=1")
    assert record.result().policy_version == "step-7"
    assert [step.step_id for step in record.trajectory().steps] == [1, 2, 3]
    assert record.row.categories == ["memory", "coding"]
    with pytest.raises(FileNotFoundError):
        list(record.rollout())


def test_sql_reads_with_names_and_a_limit(store: TrajectoryStore) -> None:
    answer = store.sql("SELECT task, count(*) AS n FROM trials GROUP BY task ORDER BY n DESC, task", limit=2)
    assert (answer.columns, [tuple(row) for row in answer.rows]) == (("task", "n"), [("alpha", 2), ("beta", 2)])
    assert answer.cut
    joined = "SELECT tool, avg(loops) FROM calls JOIN behaviour USING (trial_id) GROUP BY tool ORDER BY tool;"
    assert [tuple(row) for row in store.sql(joined).rows] == [("bash", 0.0), ("read", 0.0)]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM trials",
        "SELECT 1; DELETE FROM trials",
        "WITH gone AS (DELETE FROM trials RETURNING 1) SELECT * FROM gone",
        "SELECT 1; COMMIT; DROP TABLE trials",
        "PRAGMA query_only=0",
        "ATTACH '/tmp/x' AS y",
        "COPY trials TO PROGRAM 'touch /tmp/x'",
        "SELECT nothing FROM trials",
        "",
    ],
)
def test_sql_changes_nothing(store: TrajectoryStore, statement: str) -> None:
    with pytest.raises(SqlRefused):
        store.sql(statement)
    assert store.count() == len(ALL)


def test_sql_that_takes_too_long_is_stopped(store: TrajectoryStore) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(SqlRefused, match="took longer than"):
        store.sql(endless, timeout_sec=0.2)


def test_counts_and_trials_are_asked_for_apart(store: TrajectoryStore) -> None:
    with pytest.raises(UsageError, match="by:task counts"):
        store.query("by:task")
    with pytest.raises(UsageError, match="by:task"):
        store.counts("outcome=scored")
