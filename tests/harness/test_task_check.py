"""`harness tasks check`: a task is admitted if the solution earns all, doing nothing nothing, and git tells no more."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from builders import make_task
from command_line import harness

from harness.failures import Outcome
from harness.job.check import judge
from harness.records import TrialResult

GRADED = '#!/bin/sh\n[ "$(cat /app/hello.txt)" = hello ]; echo $((1 - $?)) > /logs/verifier/reward.txt\n'
COIN = "#!/bin/bash\necho $((RANDOM % 2)) > /logs/verifier/reward.txt\n"


def attempt(reward: float | None, outcome: Outcome = Outcome.SCORED) -> TrialResult:
    return TrialResult.model_construct(outcome=outcome, reward=reward, failure=None)


def check(folder: Path, *options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = harness("tasks", "check", "tasks", "--json", "--allow-unsafe-local", *options, cwd=folder)
    assert done.code in (0, 1), done.err
    return done.code, {each["name"]: each for each in json.loads(done.out)}


@pytest.mark.slow
@pytest.mark.case("B14")
def test_a_sound_task_passes_and_three_unsound_ones_are_told_apart(tmp_path: Path) -> None:
    make_task(tmp_path / "tasks", "sound", test=GRADED)
    assert check(tmp_path)[0] == 0
    make_task(tmp_path / "tasks", "coin", test=COIN)
    make_task(tmp_path / "tasks", "generous")
    make_task(tmp_path / "tasks", "unsolved", test=GRADED, solve="#!/bin/sh\ntrue\n")
    code, found = check(tmp_path, "--repeat", "20")
    assert code == 1
    assert (found["sound"]["findings"], found["sound"]["oracle"], found["sound"]["nop"]) == ([], [1.0] * 20, [0.0] * 20)
    assert found["generous"]["findings"] == ["doing nothing earns 1"]
    assert found["unsolved"]["findings"] == ["the solution earns 0"]
    assert {name for name, each in found.items() if each["flaky"]} == {"coin"}
    assert all(line.startswith("flaky: ") for line in found["coin"]["findings"])


def git(repository: Path, *argv: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", "-c", "gc.auto=0"]
    subprocess.run(["git", *who, *argv], cwd=repository, check=True, capture_output=True)


def commit(repository: Path, text: str) -> None:
    (repository / "code.py").write_text(text)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", text)


@pytest.mark.slow
@pytest.mark.case("B12")
def test_a_commit_after_the_one_that_a_task_is_at_is_found_even_when_nothing_points_to_it(tmp_path: Path) -> None:
    dockerfile = "FROM debian:bookworm-slim\nWORKDIR /app\nCOPY repo /app/repo\n"
    for name in ("clean", "tagged", "dangling"):
        repository = make_task(tmp_path / "tasks", name, test=GRADED, dockerfile=dockerfile) / "environment" / "repo"
        repository.mkdir()
        git(repository, "init", "-q")
        commit(repository, "broken")
        if name != "clean":
            commit(repository, "the fix")
            git(repository, "tag", "v2")
            git(repository, "reset", "-q", "--hard", "HEAD~1")
        if name == "dangling":
            git(repository, "tag", "-d", "v2")
            git(repository, "reflog", "expire", "--expire=now", "--all")
            (repository / ".git" / "ORIG_HEAD").unlink()
    _, found = check(tmp_path, "--repeat", "1")
    assert found["clean"]["findings"] == []
    (tagged,) = found["tagged"]["findings"]
    assert "/app/repo/.git: refs/tags/v2 is at" in tagged and "the fix" in tagged
    (dangling,) = found["dangling"]["findings"]
    assert "no branch holds" in dangling and "the fix" in dangling


def test_what_infrastructure_failed_says_nothing_of_the_task() -> None:
    ends = [attempt(1.0), attempt(None, Outcome.INFRA_ERROR), attempt(1.0)]
    found = judge("t", ends, [attempt(0.0)])
    assert (found.findings, found.flaky, found.unjudged) == ((), False, 1)
    unseen = judge("t", [attempt(1.0)], [attempt(0.0)], [attempt(None, Outcome.INFRA_ERROR)])
    assert (unseen.findings, unseen.unjudged) == ((), 1), "nobody looked into its repositories"


def test_a_solution_that_is_sometimes_not_judged_at_all_is_flaky() -> None:
    found = judge("t", [attempt(1.0), attempt(None, Outcome.TASK_ERROR), attempt(1.0)], [attempt(0.0)])
    assert found.flaky and found.findings == ("flaky: the solution earns 1 in 2, ends as task_error in 1",)
