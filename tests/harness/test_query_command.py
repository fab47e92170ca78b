"""`harness index`, `query` and `store` as they are typed."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from stored import trial

from harness import packed
from harness.atif.reader import load_trajectory
from harness.behaviour.meter import behaviour_of
from harness.cli.main import main
from harness.failures import Outcome
from harness.records import AgentUsage
from harness.store.compact import Compacted, compact_trial
from harness.store.held import held
from harness.store.layout import JobPaths, TrialPaths
from harness.store.rollout import RolloutWriter, SampledCall


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three trials of one job in `jobs`, where the commands look by default."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HARNESS_DB", raising=False)
    folder = tmp_path / "jobs"
    trial(folder, "a__1", outcome=Outcome.INFRA_ERROR, finished_at="2026-10-01T00:00:00Z")
    trial(folder, "a__1r1", reward=1.0, calls=[("bash", "rm -rf x", 1)], categories=["memory"])
    trial(folder, "b__1", reward=0.0, calls=[("bash", "ls", 0)] * 100)
    (folder / "job" / "lock.json").write_text("{}")
    return folder


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(argv)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_query_finds_trials_without_a_word_about_an_index(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "query", 'tool=bash command~"rm -rf" exit=1 category=memory')
    assert code == 0 and "jobs/job/a__1r1" in out and "b__1" not in out and "1 trials" in out
    trial(jobs, "c__1", reward=0.5)
    assert "jobs/job/c__1" in run(capsys, "query", "task=c")[1], "what is new is found"
    trial(jobs, "d__1", reward=0.5)
    assert "0 trials" in run(capsys, "query", "task=d", "--no-refresh")[1]


def test_paths_go_into_an_export(
    jobs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import io

    _, paths, _ = run(capsys, "query", "reward>=0.5", "--paths")
    assert paths == "jobs/job/a__1r1\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(paths))
    code, out, _ = run(capsys, "export", "-", "--to-sft", "-o", str(tmp_path / "chats"))
    assert code == 0 and out.startswith("1 attempts: ")


def test_json_is_an_object_a_line(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "query", "superseded=no", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["trial"] for row in rows} == {"a__1r1", "b__1"} and rows[0]["path"].startswith("jobs/job/")


def test_counts_and_sql_print_tables(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "infra_error" in run(capsys, "query", "by:task")[1]
    _, out, _ = run(capsys, "query", "--sql", "SELECT task, count(*) AS n FROM trials GROUP BY task")
    assert [line.split() for line in out.splitlines()[2:]] == [["a", "2"], ["b", "1"]]
    _, out, err = run(capsys, "query", "--sql", "SELECT task FROM trials", "--limit", "1", "--json")
    assert out == '{"task": "a"}\n' and "only the first 1 rows" in err


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["query", "rewrad>1"], "there is no column 'rewrad'; the nearest is 'reward'"),
        (["query", "--sql", "DROP TABLE trials"], "--sql takes one query that reads"),
        (["query", "--sql", "SELECT x FROM trials"], "SQL: no such column: x"),
        (["query", "--jobs-dir", "jobs/job"], "jobs/job is a job; name the folder that holds jobs"),
        (["index", "jobs/job/b__1"], "jobs/job/b__1 is a trial"),
        (["index", "nowhere"], "nowhere is not a folder"),
        (["index", "--db", "mysql://u:secret@h/d"], "not in 'mysql'"),
        (["query", "--no-refresh"], "there is no index at jobs/.harness/index.sqlite; make it: harness index"),
        (["store", "verify", "jobs/job/b__1"], "is a trial; name its job"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(
    jobs: Path, capsys: pytest.CaptureFixture[str], argv: list[str], line: str
) -> None:
    code, _, err = run(capsys, *argv)
    assert code == 2 and line in err and err.count("\n") == 1 and "secret" not in err


def test_text_that_is_no_utf_8_is_looked_for_as_the_index_stores_it(
    jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trial(jobs, "c__1", reward=1.0, task_name="torn \ufffd")
    assert "1 trials" in run(capsys, "query", 'task="torn \udcff"')[1]
    assert "torn" in run(capsys, "query", "--sql", "SELECT task FROM trials WHERE task LIKE '%\udcff'")[1]


def test_index_says_what_it_read_and_what_is_damaged(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (jobs / "job" / "b__1" / "result.json").write_text("{")
    code, out, _ = run(capsys, "index")
    assert code == 0
    assert "jobs: 3 trials in 1 jobs; 3 new, 0 changed, 0 gone" in out
    assert "note: job/b__1/result.json: " in out
    _, out, _ = run(capsys, "index", "--rebuild", "--json")
    assert json.loads(out)["added"] == 3


def test_verify_names_every_damaged_file(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "store", "verify", "jobs")[:2] == (0, "3 trials in 1 jobs: all sound\n")
    folder = jobs / "job" / "b__1"
    counted = behaviour_of(load_trajectory(folder / "agent" / "trajectory.json"))
    usage = AgentUsage(n_calls=1, n_sampled_calls=1)
    trial(jobs, "b__1", reward=0.0, behaviour=counted.model_copy(update={"steps": 7}), agent_result=usage)
    writer = RolloutWriter(TrialPaths(folder).rollout())
    writer.add(SampledCall(call_id="c", prompt_ids=[1], completion_ids=[2], logprobs=[-1.0]))
    writer.close()
    rollout = TrialPaths(folder).rollout()
    rollout.write_bytes(rollout.read_bytes()[:-1] + b"!")
    (jobs / "job" / "lock.json").write_text('{"x": NaN}')
    (jobs / "job" / "a__1r1" / "agent" / "trajectory.json").write_text("{}")
    code, out, _ = run(capsys, "store", "verify", "jobs/job")
    assert code == 1
    assert "lock.json: NaN is not JSON" in out
    assert "a__1r1/agent/trajectory.json: " in out
    assert "b__1/agent/trajectory.json: it has 101 steps, the record counted 7" in out
    assert "b__1/agent/rollout.bin: call 0 at byte" in out
    assert "3 trials in 1 jobs: 4 damages" in out


def test_prune_removes_replaced_executions_only_and_only_when_told(
    jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "store", "prune", "jobs", "--dry-run")
    assert code == 0 and "jobs/job/a__1  " in out and "replaced by a__1r1" in out and "--yes" in out
    assert (jobs / "job" / "a__1").is_dir()
    days = (datetime.now(UTC) - datetime(2026, 10, 1, tzinfo=UTC)).days
    assert "nothing to prune" in run(capsys, "store", "prune", "jobs", "--older-than", str(days + 10), "--yes")[1]
    (jobs / "job" / ".pruned.x__1").mkdir()
    assert "removed 1 executions" in run(capsys, "store", "prune", "jobs", "--yes")[1]
    assert {folder.name for folder in (jobs / "job").iterdir() if folder.is_dir()} == {"a__1r1", "b__1"}
    (jobs / "job" / "a__1r1" / "result.json").write_text("{")
    trial(jobs, "a__1", outcome=Outcome.INFRA_ERROR)
    assert "nothing to prune" in run(capsys, "store", "prune", "jobs", "--yes")[1], "the later one cannot be read"


def test_a_prune_sweeps_up_what_a_killed_one_left_and_leaves_a_job_that_runs_out(
    jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = jobs / "job" / ".pruned.x__1"
    left.mkdir()
    with held(JobPaths(jobs / "job")):
        code, out, err = run(capsys, "store", "prune", "jobs", "--yes")
    assert code == 0 and "removed 0 executions" in out and "jobs/job is being run by another process: left out" in err
    assert left.is_dir() and (jobs / "job" / "a__1").is_dir()
    shutil.rmtree(jobs / "job" / "a__1")
    assert "nothing to prune" in run(capsys, "store", "prune", "jobs", "--dry-run")[1] and left.is_dir()
    assert "nothing to prune" in run(capsys, "store", "prune", "jobs")[1] and not left.exists()


def test_what_was_compacted_reads_as_before(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = load_trajectory(jobs / "job" / "b__1" / "agent" / "trajectory.json")
    code, out, _ = run(capsys, "store", "compact", "jobs")
    assert code == 0 and out.startswith("1 files compressed")
    path = jobs / "job" / "b__1" / "agent" / "trajectory.json"
    assert not path.exists() and packed.packed_path(path).exists()
    assert load_trajectory(path) == before
    assert "100 " in run(capsys, "query", "--sql", "SELECT count(*) FROM calls WHERE command = 'ls'")[1]
    assert run(capsys, "store", "verify", "jobs")[0] == 0
    assert "bash" in run(capsys, "show", "jobs/job/b__1", "--tail", "1")[1]
    assert "100" in run(capsys, "behaviour", "jobs/job")[1]
    packed.packed_path(path).write_bytes(packed.packed_path(path).read_bytes()[:-9])
    code, out, _ = run(capsys, "store", "verify", "jobs")
    assert code == 1 and "trajectory.json.zst is damaged" in out


def test_a_compaction_killed_between_its_two_steps_lost_nothing_and_is_finished_by_the_next(jobs: Path) -> None:
    paths = JobPaths(jobs / "job").trial("b__1")
    path = paths.trajectory()
    content = path.read_bytes()
    packed.packed_path(path).write_bytes(packed.pack(content)[:10])
    path.with_name(".trajectory.json.zst.1.tmp").write_bytes(b"the draft of one that was killed earlier")
    assert packed.read_bytes(path) == content
    done = Compacted()
    compact_trial(paths, done)
    assert done.files == 1 and not path.exists() and packed.read_bytes(path) == content
    assert [each.name for each in path.parent.iterdir() if each.suffix == ".tmp"] == []


def test_a_compressed_file_that_claims_more_than_a_record_holds_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json.zst").write_bytes(packed.pack(b"0" * 1_000_000))
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        packed.read_bytes(tmp_path / "x.json", max_bytes=1000)
