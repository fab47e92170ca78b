"""The gate on graded rewards, on what was never run, and with a baseline that lies in git."""

from __future__ import annotations

import json
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import xmlschema
from runs import run_of, task_run, write_job

from evals.categories import load_categories
from evals.cli.gate import _write as write_outputs
from evals.gate.judge import GateResult, judge
from evals.gate.output.junit import to_junit
from evals.gate.output.text import to_text
from evals.gate.policy import Metric, Policy
from evals.gate.rule import Verdict
from evals.run import Run
from harness.cli.main import main

SCHEMA = Path(__file__).parent / "data" / "junit.xsd"


def judged(base: Run, new: Run, **policy: Any) -> GateResult:
    return judge(base, new, Policy(**policy), load_categories(), today=date(2026, 6, 1))


def graded(rewards: float, tasks: int = 20, attempts: int = 3, counted: int | None = None) -> Run:
    """No attempt passes; each earns so much, a little more in some tasks than in others."""
    n = attempts if counted is None else counted
    return run_of([task_run(f"t{t}", 0, n, attempts, rewards=n * (rewards + t % 5 / 100)) for t in range(tasks)])


def test_a_fall_of_rewards_that_no_pass_mark_sees_fails_where_rewards_are_gated() -> None:
    base, new = graded(0.9), graded(0.5)
    assert judged(base, new).verdict is Verdict.PASS
    result = judged(base, new, metric=Metric.REWARD)
    assert (result.verdict, result.exit_code) == (Verdict.FAIL, 1)
    assert result.reasons[0].startswith("the mean reward fell by 40.0pp on 20 tasks")
    assert result.reading is not None
    assert result.reading.p == 2**-20
    assert "mean reward: -0.400" in to_text(result)


def test_unchanged_rewards_pass() -> None:
    assert judged(graded(0.9), graded(0.9), metric=Metric.REWARD).verdict is Verdict.PASS


def test_rewards_whose_missing_attempts_could_decide_leave_it_open() -> None:
    result = judged(graded(0.5), graded(0.5, counted=2), metric=Metric.REWARD, max_infra=0.5)
    assert (result.verdict, result.worst, result.best) == (Verdict.INCONCLUSIVE, Verdict.FAIL, Verdict.PASS)


def test_an_undecided_reward_says_what_could_be_seen() -> None:
    base = run_of([task_run(f"t{t}", 0, 1, rewards=t % 4 / 4) for t in range(20)])
    new = run_of([task_run(f"t{t}", 0, 1, rewards=(t // 2) % 4 / 4) for t in range(20)])
    result = judged(base, new, metric=Metric.REWARD)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.outlook is not None
    assert 0.1 < result.outlook.mde < 0.6


def test_not_worse_passes_only_where_that_is_asked() -> None:
    base = run_of([task_run(f"t{n}", n % 2, 1) for n in range(40)])
    same = run_of([task_run(f"t{n}", (n // 2) % 2, 1) for n in range(40)])
    worse = run_of([task_run(f"t{n}", (n // 2) % 2 and n > 2, 1) for n in range(40)])
    assert judged(base, same).verdict is Verdict.INCONCLUSIVE
    result = judged(base, same, pass_if_not_worse=True)
    assert result.verdict is Verdict.PASS
    assert "it did not fall, which was asked, but a drop of 5.0pp is possible" in result.reasons[0]
    assert judged(base, worse, pass_if_not_worse=True).verdict is Verdict.INCONCLUSIVE


def test_a_task_that_was_never_run_is_skipped_not_an_error() -> None:
    tasks = [task_run(f"t{n}", 1, 1) for n in range(11)]
    new = run_of([*tasks, task_run("late", 0, 0, 3, unscored={"pending": 3}), task_run("lost", 0, 0, 3)])
    document = to_junit(judged(run_of([*tasks, task_run("late", 3, 3), task_run("lost", 3, 3)]), new))
    xmlschema.validate(document, str(SCHEMA))
    assert '<skipped message="never run" />' in document
    assert document.count("<error ") == 2, "the lost task, and the gate that is invalid"


def test_the_markdown_file_fits_into_a_comment(tmp_path: Path) -> None:
    names = [f"a/very-long-name-of-a-task-{n:05}" for n in range(2000)]
    result = judged(run_of([task_run(n, 1, 1) for n in names]), run_of([task_run(n, 0, 1) for n in names]))
    write_outputs(result, tmp_path)
    text = (tmp_path / "gate.md").read_text()
    assert len(text) < 65_536
    assert text.startswith("<!-- harness-gate -->")
    assert "gate.json" in text
    assert json.loads((tmp_path / "gate.json").read_text())["policy"]["metric"] == "success"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose only commit holds a baseline, and a job that is as good."""
    job = write_job(tmp_path / "job", {f"t{n}": [1.0, 1.0, 0.5] for n in range(20)})
    root = tmp_path / "repo"
    (root / "kept").mkdir(parents=True)
    assert main(["baseline", "save", str(job), str(root / "kept" / "base.json")]) == 0
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    for arguments in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "."],
        ["-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "-m", "a baseline"],
    ):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    (root / "kept" / "base.json").write_text("changed since")
    monkeypatch.chdir(root)
    return tmp_path


@pytest.mark.parametrize("place", ["git:HEAD:kept/base.json", "git:main:./kept/base.json"])
def test_a_baseline_is_read_from_a_revision(repository: Path, capsys: pytest.CaptureFixture[str], place: str) -> None:
    capsys.readouterr()
    assert main(["gate", str(repository / "job"), "--baseline", place]) == 0
    assert f"baseline: {place} (job)" in capsys.readouterr().out
    assert main(["compare", place, str(repository / "job")]) == 0


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("git:nowhere:kept/base.json", "git has no such file"),
        ("git:HEAD:no.json", "git has no such file"),
        ("git:HEAD:kept", "is no file"),
        ("git:HEAD", "write git:REF:PATH"),
        ("git:--help:x", "write git:REF:PATH"),
    ],
)
def test_a_revision_without_the_baseline_is_one_line(
    repository: Path, capsys: pytest.CaptureFixture[str], place: str, words: str
) -> None:
    capsys.readouterr()
    assert main(["gate", str(repository / "job"), "--baseline", place]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1


def test_a_comparison_tells_the_sign_flip_test_of_graded_rewards(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = write_job(repository / "new", {f"t{n}": [1.0, 1.0, 0.25] for n in range(20)})
    capsys.readouterr()
    assert main(["compare", str(repository / "job"), str(new)]) == 0
    assert "mean reward: -0.083" in (said := capsys.readouterr().out)
    assert "sign-flip p = 1.9e-06 two-sided (exact)" in said
    assert main(["compare", str(repository / "job"), str(new), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["reward_sign_flip"] == {"worse": 2**-20, "better": 1.0, "changed": 20, "exact": True}
