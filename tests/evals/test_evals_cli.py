"""The commands as a user runs them, on recorded and made-up jobs, ours and Harbor's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from command_line import REPO, Done, environment, harness
from runs import write_job

from harness.failures import Outcome

HARBOR = REPO / "tests" / "harness" / "data" / "harbor-jobs"
INFRA = Outcome.INFRA_ERROR
GATE = REPO / "examples" / "ci" / "gate.sh"


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A baseline of 60 tasks of three attempts, and jobs: as good, worse, with a tenth of attempts lost, others."""
    root = tmp_path_factory.mktemp("jobs")
    base = {f"t{n:02}": [1.0 if (n + k) % 4 else 0.0 for k in range(3)] for n in range(60)}
    same = {name: ends[1:] + ends[:1] for name, ends in base.items()}
    worse = {name: [0.0] * 3 if n < 12 else ends for n, (name, ends) in enumerate(base.items())}
    lost = {name: [INFRA] * 3 if n < 6 else ends for n, (name, ends) in enumerate(worse.items())}
    categories = {name: ["coding" if n % 2 else "<b>mine</b>"] for n, name in enumerate(base)}
    for name, ends in (("base", base), ("clean", same), ("regressed", worse), ("lost", lost)):
        write_job(root / name, ends, categories=categories, cost=0.5)  # type: ignore[arg-type]
    write_job(root / "other", {"t00": [1.0] * 3, "new": [1.0] * 3}, digests={"t00": "edited"})
    return root


def run(*argv: str | Path, code: int = 0) -> Done:
    done = harness(*argv, timeout=50)
    assert done.code == code, done.out + done.err
    assert "Traceback" not in done.err
    return done


@pytest.mark.parametrize(
    ("job", "code", "verdict", "said"),
    [
        ("clean", 0, "pass", "a drop of 5.0pp is ruled out"),
        ("regressed", 1, "fail", "the success rate fell by"),
        ("lost", 3, "invalid", "18 of 180 attempts of the job say nothing of the agent (18 infra_error): 10.0%"),
    ],
)
def test_the_ci_step_on_a_clean_a_regressed_and_a_half_lost_job(
    job: str, code: int, verdict: str, said: str, jobs: Path, tmp_path: Path
) -> None:
    baseline = tmp_path / "baseline.json"
    run("baseline", "save", jobs / "base", baseline)
    summary, output = tmp_path / "summary.md", tmp_path / "output"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    github = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(output)}
    done = subprocess.run(
        [GATE, jobs / job, baseline, tmp_path / "gate"],
        env={**environment(github), "PATH": path},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.startswith("::notice" if code == 0 else "::error")
    assert said in done.stdout.replace("%25", "%")
    assert output.read_text() == f"verdict={verdict}\n"
    assert verdict.upper() in summary.read_text()
    assert json.loads((tmp_path / "gate" / "gate.json").read_text())["verdict"] == verdict
    assert (tmp_path / "gate" / "gate.md").is_file()
    assert (tmp_path / "gate" / "gate.xml").is_file()


def test_the_ci_step_without_a_baseline_has_nothing_to_compare_with(jobs: Path, tmp_path: Path) -> None:
    done = subprocess.run([GATE, jobs / "base", tmp_path / "none"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no baseline" in done.stdout


def test_the_ci_step_asks_the_gate_for_a_baseline_that_is_in_git(jobs: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [GATE, jobs / "base", "git:no-such-branch:base.json", tmp_path / "gate"],
        env={**environment(), "PATH": path},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "git:no-such-branch:base.json: git has no such file" in done.stderr


@pytest.mark.parametrize("name", ["regression-gate.yml", "pre-push.yaml"])
def test_what_the_ci_examples_call_is_there(name: str) -> None:
    text = (REPO / "examples" / "ci" / name).read_text()
    assert "examples/ci/gate.sh jobs/" in text
    assert os.access(GATE, os.X_OK)


def test_a_baseline_file_and_its_job_give_the_same_verdict(jobs: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.json"
    run("baseline", "save", jobs / "base", file)
    first = json.loads(run("gate", jobs / "regressed", "--baseline", file, "--format", "json", code=1).out)
    second = json.loads(run("gate", jobs / "regressed", "--baseline", jobs / "base", "--format", "json", code=1).out)
    for found in (first, second):
        found["base"].pop("label")
    assert first == second


@pytest.mark.parametrize(("by", "groups"), [("category", {"coding", "<b>mine</b>"}), ("agent", {"agent"})])
def test_a_summary_by_group_and_the_whole_agree(by: str, groups: set[str], jobs: Path) -> None:
    found = json.loads(run("summary", jobs / "lost", "--by", by, "--json").out)
    assert (found["format"], found["version"], found["by"]) == ("harness-summary", 1, by)
    assert {row["key"] for row in found["groups"]} == groups
    assert sum(row["n"] for row in found["groups"]) == found["all"]["n"] == 162
    assert found["all"]["total"] == sum(found["counts"].values()) == 180
    assert found["all"]["worst"] < found["all"]["rate"] < found["all"]["best"]
    assert found["pass_at_k"]["3"]["tasks"] == 54
    text = run("summary", jobs / "lost", "--by", by).out
    assert "180 attempts: 162 scored, 18 infra_error" in text
    assert "pass@3" in text


def test_summary_compare_and_gate_read_what_harbor_wrote(tmp_path: Path) -> None:
    found = json.loads(run("summary", HARBOR / "fail1", "--json").out)
    assert (found["all"]["n"], found["all"]["total"]) == (7, 18)
    assert found["all"]["incomplete"]
    assert "incomplete" in run("summary", HARBOR / "fail1", "--by", "task").out
    assert "mean over 7 tasks: +0.0pp" in run("compare", HARBOR / "fail1", HARBOR / "fail1").out
    assert "11 of 18 attempts" in run("gate", HARBOR / "fail1", "--baseline", HARBOR / "fail1", code=3).out
    run("baseline", "save", HARBOR / "fail1", tmp_path / "b.json")
    run("compare", tmp_path / "b.json", HARBOR / "fail1")


@pytest.mark.case("F9")
def test_comparing_other_tasks_is_refused_and_intersecting_says_what_was_left_out(jobs: Path) -> None:
    err = run("compare", jobs / "base", jobs / "other", code=2).err
    assert "59 only in the baseline: t01" in err
    assert "1 only in the job: new; 1 edited: t00" in err
    assert err.count("\n") == 1
    assert "no task" in run("compare", jobs / "base", jobs / "other", "--intersect", code=2).err


def test_a_comparison_tells_difference_flips_cost_and_categories(jobs: Path) -> None:
    text = run("compare", jobs / "base", jobs / "regressed").out
    assert "75.0% -> 60.0%, mean over 60 tasks: -15.0pp [" in text
    assert "cost per attempt: $0.5000 -> $0.5000" in text
    assert "12 tasks changed: 12 worse, 0 better" in text
    assert "Coding" in text
    found = json.loads(run("compare", jobs / "base", jobs / "regressed", "--json").out)
    assert (found["format"], found["version"]) == ("harness-compare", 1)
    assert found["overall"]["difference"] == pytest.approx(-0.15)


def test_power_says_how_often_a_drop_is_found(jobs: Path) -> None:
    argv = ("power", "--baseline", jobs / "base", "--drop", "10pp", "-k", "3", "-k", "6", "--replications", "200")
    rows = json.loads(run(*argv, "--json").out)["rows"]
    assert [(row["attempts"], row["drop"]) for row in rows] == [(3, 0), (3, 0.1), (6, 0), (6, 0.1)]
    assert rows[0]["fail"] <= 0.1 < rows[1]["fail"] <= rows[3]["fail"]
    assert all(row["fail"] + row["pass"] + row["inconclusive"] == pytest.approx(1) for row in rows)
    assert "10.0pp" in run(*argv).out


@pytest.mark.case("F8")
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("summary", "{empty}"), "holds no trials"),
        (("summary", "{empty}/none"), "is not a job's folder"),
        (("gate", "{empty}", "--baseline", "{jobs}/base"), "holds no trials"),
        (("gate", "{jobs}/base", "--baseline", "{empty}/none"), "is not a job's folder"),
        (("gate", "{jobs}/base", "--baseline", "{bad}"), "harness baseline save"),
        (("gate", "{jobs}/base", "--baseline", "{jobs}/base", "--margin", "5"), "--margin '5': write a share"),
        (("gate", "{jobs}/base", "--baseline", "{jobs}/base", "--margin", "0"), "--margin must be above 0"),
        (("gate", "{jobs}/base", "--baseline", "{jobs}/base", "--require", "x"), "write CATEGORY>=RATE"),
        (("gate", "{jobs}/base", "--baseline", "{jobs}/base", "--quarantine", "{bad}"), "is not TOML"),
        (("summary", "{jobs}/base", "--categories", "{bad}"), "is not TOML"),
        (("gate", "{jobs}/base"), "--baseline"),
        (("power", "--baseline", "{jobs}/base", "--drop", "a lot"), "--drop 'a lot': write a share"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(
    argv: tuple[str, ...], said: str, jobs: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    bad = tmp_path / "bad.json"
    bad.write_text('{"a": 1}')
    filled = [each.format(empty=tmp_path / "empty", jobs=jobs, bad=bad) for each in argv]
    err = run(*filled, code=2).err
    assert said in err
    assert err.count("\n") == 1


def test_names_that_attack_a_terminal_or_a_ci_system_are_shown_not_obeyed(tmp_path: Path) -> None:
    names = [
        "\x1b[31mred\x1b[0m",
        "\n::error::owned",
        "[bold]x[/bold][link=http://e]",
        "\u202egnp",
        "<script>",
        "a|b`c",
    ]
    base, new = (
        write_job(
            tmp_path / name,
            {each: [reward] for each in [*names, *map(str, range(10))]},
            categories={each: [each] for each in names},
            tags={each: [each] for each in names},
        )
        for name, reward in (("base", 1.0), ("new", 0.0))
    )
    said = [run("summary", new, "--by", by).out for by in ("category", "task", "tag")]
    said.append(run("compare", base, new).out)
    for format_ in ("text", "markdown", "github", "json", "junit"):
        said.append(run("gate", new, "--baseline", base, "--format", format_, code=1).out)
    for text in said:
        assert not set(text) & set("\x1b\x07\x00\u202e")
        assert "\n::error::owned" not in text
    assert "[bold]x[/bold]" in said[1]


def test_without_scipy_everything_but_the_exact_interval_works(tmp_path: Path) -> None:
    (tmp_path / "scipy.py").write_text("raise ImportError('not installed')")
    env = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{REPO}"}
    job = write_job(tmp_path / "job", {f"t{n}": [1.0, float(n % 2)] for n in range(30)})
    single = write_job(tmp_path / "single", {f"t{n}": [0.5] for n in range(30)})
    assert harness("summary", job, env=env).code == harness("summary", single, env=env).code == 0
    assert harness("compare", job, job, env=env).code == 0
    assert harness("gate", job, "--baseline", job, env=env).code == 0
    done = harness("summary", single, "--ci", "exact", env=env)
    assert (done.code, done.err) == (2, "error: this interval needs scipy: pip install 'harness-rl[evals]'\n")


@pytest.mark.case("F6")
def test_a_job_in_which_nothing_counts_has_no_rate_and_never_passes(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job", {f"t{n}": [INFRA] for n in range(12)})
    found = json.loads(run("summary", job, "--json").out)["all"]
    assert (found["rate"], found["interval"], found["reward"], found["worst"]) == (None, None, None, 0.0)
    run("gate", job, "--baseline", job, code=3)


def test_the_entry_points_are_the_commands() -> None:
    points = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["entry-points"]["harness.commands"]
    ours = {name for name, target in points.items() if target.startswith("evals.")}
    assert ours == {"baseline", "compare", "gate", "power", "report", "summary", "view"}
