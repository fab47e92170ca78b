"""One job, many readers: every command tells the same numbers of it, and they add up."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import harness
from recorded import change, write_trajectory
from runs import write_job

from evals.run import read_job
from harness.failures import Outcome
from harness.job.progress import job_result, summarise, write_job_result
from harness.records import TrialResult, now
from harness.store.layout import JobPaths

INFRA, BROKEN, STOPPED, GAVE_UP = (
    Outcome.INFRA_ERROR,
    Outcome.TASK_ERROR,
    Outcome.CANCELLED,
    Outcome.AGENT_FAILED,
)
COUNTS = {"scored": 30, "agent_failed": 1, "infra_error": 2, "task_error": 3, "cancelled": 1, "pending": 2}
PASSED, N, TOTAL = 19, 31, 39


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """13 tasks of 3 attempts: every outcome, graded rewards, an unequal number of them, and one that was repeated."""
    folder = tmp_path_factory.mktemp("agree") / "job"
    ends: dict[str, list[Any]] = {f"s/t{n:02}": [1.0, 1.0, 0.0] for n in range(13)}
    ends["s/t03"] = [INFRA, 1.0, 0.0]
    ends["s/t04"] = [BROKEN, BROKEN, BROKEN]
    ends["s/t05"] = [STOPPED, 0.5, 0.25]
    ends["s/t06"] = [GAVE_UP, 0.75, 1.0]
    ends["s/t07"] = [1.0, INFRA]
    ends["s/t08"] = [1.0, 1.0]
    groups = {name: ["coding", "memory"] if number % 2 else ["coding"] for number, name in enumerate(ends)}
    write_job(folder, ends, categories=groups, cost=0.02)
    _repeat(folder, "t0000__1", like="t0003__1")
    for name in ("t0001__1", "t0002__2", "t0005__2"):
        turns = [{"user": "go"}, {"agent": "so", "call": "ls", "output": "a"}]
        write_trajectory(folder / name, turns)
    summary, _ = summarise(JobPaths(folder), TOTAL, 1.0)
    document = job_result(summary, job_id="j", started_at=now(), finished_at=now(), evals_key="agent")
    write_job_result(JobPaths(folder), document, durable=False)
    return folder


def _repeat(folder: Path, name: str, *, like: str) -> None:
    """Let an attempt have failed for infrastructure at first."""
    shutil.copytree(folder / name, folder / f"{name}r1")
    lost = TrialResult.model_validate_json((folder / like / "result.json").read_bytes())

    def fail(record: TrialResult) -> None:
        record.outcome, record.failure = lost.outcome, lost.failure
        record.reward, record.reward_valid, record.verifier_result = None, False, None

    def again(record: TrialResult) -> None:
        record.retry, record.trial_name = 1, f"{name}r1"

    change(folder / name / "result.json", fail)
    change(folder / f"{name}r1" / "result.json", again)


def told(*argv: str | Path) -> Any:
    done = harness(*argv)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_job_s_own_record_show_and_summary_count_alike(job: Path) -> None:
    recorded = json.loads((job / "result.json").read_text())["summary"]
    shown = told("show", job, "--json")
    summary = told("summary", job, "--json")
    assert recorded["counts"] == shown["counts"] == summary["counts"] == COUNTS
    assert sum(COUNTS.values()) == TOTAL
    row, overall = summary["all"], recorded["overall"]
    assert overall == shown["overall"]
    assert (row["successes"], row["n"], row["total"]) == (PASSED, N, TOTAL)
    assert (overall["successes"], overall["n"], overall["total"]) == (PASSED, N, TOTAL)
    assert row["rate"] == overall["rate"] == PASSED / N
    assert row["interval"] == overall["wilson_95"]
    assert row["worst"] == overall["worst_case"] == PASSED / TOTAL
    assert row["best"] == (PASSED + TOTAL - N) / TOTAL
    assert row["reward"] == overall["mean_reward"]
    assert row["reward_interval"][0] < row["reward"] < row["reward_interval"][1]
    assert (row["reward_interval"][0] + row["reward_interval"][1]) / 2 == pytest.approx(row["reward"])
    assert summary["retries"] == recorded["n_retries"] == 1
    assert summary["cost_usd"] == recorded["cost_usd"]
    for group in summary["groups"]:
        category = recorded["categories"][group["key"]]
        assert (group["successes"], group["n"], group["total"]) == tuple(
            category[name] for name in ("successes", "n", "total")
        )
        assert (group["rate"], group["interval"]) == (category["rate"], category["wilson_95"])


@pytest.mark.parametrize("by", ["difficulty", "task", "agent"])
def test_groups_that_share_no_task_add_up_to_all_but_what_is_pending(job: Path, by: str) -> None:
    summary = told("summary", job, "--by", by, "--json")
    groups, row = summary["groups"], summary["all"]
    for name in ("n", "successes"):
        assert sum(group[name] for group in groups) == row[name]
    assert sum(group["total"] for group in groups) == row["total"] - COUNTS["pending"]


def test_the_attempts_of_one_task_are_independent_of_each_other(job: Path) -> None:
    groups = {group["key"]: group for group in told("summary", job, "--by", "task", "--json")["groups"]}
    assert groups["s/t00"]["interval"] == pytest.approx([0.207660, 0.938510], abs=1e-5), "Wilson's of 2 of 3"


def test_compare_gate_and_baseline_read_what_the_summary_reads(job: Path, tmp_path: Path) -> None:
    compared = told("compare", job, job, "--json")
    saved = harness("baseline", "save", job, tmp_path / "base.json")
    loose = ("--max-infra", "0.5", "--max-missing-tasks", "0.5")
    gate = told("gate", job, "--baseline", tmp_path / "base.json", "--format", "json", *loose)
    assert f"{PASSED} of {N} passed" in saved.out
    assert f"{TOTAL - N} of {TOTAL} attempts say nothing" in saved.out
    for document in (compared, gate):
        for side in ("base", "new"):
            run = document[side]
            assert (run["attempts"], run["missing"], run["outcomes"]) == (TOTAL, TOTAL - N, COUNTS)
    for field in ("tasks", "base", "new", "interval", "p"):
        assert compared["overall"][field] == gate["overall"][field]
    per_task = told("summary", job, "--by", "task", "--json")
    rates = [group["rate"] for group in per_task["groups"] if group["n"]]
    assert compared["overall"]["new"] == pytest.approx(sum(rates) / len(rates)), "the mean over tasks, and says so"
    assert per_task["pass_at_k"]["1"]["value"] == pytest.approx(compared["overall"]["new"])
    assert f"mean over {len(rates)} tasks" in harness("compare", job, job).out


def test_an_invalid_gate_accounts_for_every_missing_attempt(job: Path) -> None:
    done = harness("gate", job, "--baseline", job)
    found = re.search(r"(\d+) of (\d+) attempts of the job say nothing of the agent \((.*?)\)", done.out)
    assert done.code == 3
    assert found
    assert (int(found[1]), int(found[2])) == (TOTAL - N, TOTAL)
    assert sum(int(part.split()[0]) for part in found[3].split(", ")) == TOTAL - N


def test_what_is_quarantined_is_missing_no_more(job: Path, tmp_path: Path) -> None:
    quarantine = tmp_path / "quarantine.toml"
    quarantine.write_text('[[quarantine]]\ntask = "s/t04"\nreason = "broken"\nuntil = 2999-01-01\n')
    done = harness("gate", job, "--baseline", job, "--quarantine", quarantine)
    assert f"{TOTAL - N - 3} of {TOTAL - 3} attempts of the job" in done.out
    assert "task_error" not in done.out


def test_the_report_says_the_same_and_names_what_is_missing(job: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    done = harness("report", job, "-o", tmp_path / "r.html")
    assert done.code == 0, done.err
    page = (tmp_path / "r.html").read_text()
    assert f"passed {PASSED} of {N} attempts: {PASSED / N:.1%}" in page
    assert f"{TOTAL - N} of {TOTAL} attempts say nothing of the agent" in page
    for outcome in ("infra error", "task error", "cancelled", "pending"):
        assert f"{COUNTS[outcome.replace(' ', '_')]} {outcome}" in page


def test_behaviour_is_of_the_attempts_that_the_summary_counts_and_says_how_many_left_a_trajectory(job: Path) -> None:
    assert f"3 of {TOTAL - COUNTS['pending']} trials" in harness("behaviour", job).out


def test_a_cost_per_attempt_is_over_those_that_told_one(job: Path, tmp_path: Path) -> None:
    quiet = tmp_path / "quiet"
    shutil.copytree(job, quiet)
    for path in sorted(quiet.glob("t00*__3/result.json")):
        change(path, lambda record: setattr(record, "agent_result", None))
    compared = told("compare", job, quiet, "--json")["cost_usd_per_attempt"]
    assert compared == {"base": pytest.approx(0.02), "new": pytest.approx(0.02)}


def test_a_job_without_its_own_record_is_read_as_it_was_asked(tmp_path: Path) -> None:
    done = harness(
        "run",
        "--suite",
        "hello",
        "--n-tasks",
        "1",
        "-k",
        "2",
        "--pass-mark",
        "0.5",
        "--jobs-dir",
        tmp_path,
        "--name",
        "j",
    )
    assert done.code == 0, done.err
    job = tmp_path / "j"
    shutil.rmtree(next(job.glob("*__2")))
    (job / "result.json").unlink()
    run, summary = read_job(job)
    assert (summary.counts["pending"], summary.pass_mark) == (1, 0.5)
    assert run.total == summary.n_total
    assert told("summary", job, "--json")["counts"]["pending"] == 1


def test_a_difference_that_no_task_shows_is_not_a_certain_zero(job: Path) -> None:
    assert "mean reward: +0.000, sign-flip p = 1" in harness("compare", job, job).out


def test_a_job_of_harbor_s_tells_why_its_attempts_have_no_verdict() -> None:
    harbor = Path(__file__).parents[1] / "harness" / "data" / "harbor-jobs" / "fail1"
    shown = told("show", harbor, "--json")
    missing = shown["counts"]["infra_error"] + shown["counts"]["task_error"]
    told_of = [each for each in shown["failures"] if each["category"] in ("infra_error", "task_error")]
    assert missing == 11
    assert sum(each["count"] for each in told_of) == missing
