"""The report's page as text: what it says of every kind of job, what it leaves out, and that nothing in it acts."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from command_line import REPO, harness
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from recorded import change, realistic_job, write_trajectory
from runs import write_job

from evals.categories import load_categories
from evals.compare import compare
from evals.pairing import pair
from evals.report.attempts import Attempt, Job, load
from evals.report.behaviour import traits
from evals.report.bodies import bodies
from evals.report.bounds import Bounds
from evals.report.drawings import figures, save
from evals.report.figures.radar import measured, radar, spokes, why_not
from evals.report.filters import environment
from evals.report.inert import cut, inert
from evals.report.page import write
from evals.report.words import comparison, verdict
from evals.scorecard import Scorecard
from harness.cli.main import main
from harness.failures import Outcome
from harness.job.early import Decision
from harness.records import Behaviour, TrialResult

HARBOR = REPO / "tests" / "harness" / "data" / "harbor-jobs"
KNOWN = load_categories()
INFRA = Outcome.INFRA_ERROR
HOSTILE = "<script>alert(1)</script>\x1b[31mred\x1b[0m \u202egnp.exe\x00 </pre></style><img src=x onerror=alert(2)>"


def page_of(*jobs: Job, bounds: Bounds | None = None, to: Path) -> str:
    """The page of a job, or of two compared."""
    found = None
    if len(jobs) == 2:
        base, new = (job.run for job in jobs)
        found = compare(base, new, pair(base, new), KNOWN)
    write(to, jobs, found, figures(jobs, found, KNOWN), KNOWN, bounds or Bounds())
    return to.read_text()


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.text += " " if tag in {"td", "th", "dd"} else ""

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> _Elements:
    found = _Elements()
    found.feed(page)
    found.text = re.sub(r"\s+", " ", found.text)
    return found


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("jobs") / "nightly"
    return load(realistic_job(folder, tasks=60, attempts=2, seed=1, steps=6), KNOWN)


def test_the_verdict_is_a_plain_sentence_with_its_n(tmp_path: Path) -> None:
    rewards = {f"t{n}": [1.0 if n < 6 else 0.0] for n in range(7)} | {f"x{n}": [INFRA] for n in range(3)}
    said = verdict(load(write_job(tmp_path / "job", rewards), KNOWN))
    assert said.line == "agent passed 6 of 7 attempts: 85.7%."
    assert said.notes == (
        "On tasks like these 7 the rate lies between 48.7% and 97.4% (95% interval, n=7).",
        "3 of 10 attempts say nothing of the agent (3 infra error) and are left out, not counted as failures. "
        "Had they all failed, the rate would be 60.0%; had they all passed, 90.0% (n=10).",
    )


@pytest.mark.case("F2")
def test_one_survivor_of_twenty_is_no_verdict(tmp_path: Path) -> None:
    ends = {f"t{n}": [1.0 if n == k == 0 else INFRA for k in range(4)] for n in range(5)}
    job = load(write_job(tmp_path / "job", ends), KNOWN)
    assert verdict(job).line == "No verdict: only 1 of 20 attempts say anything of agent."
    assert "incomplete" in page_of(job, to=tmp_path / "r.html")


@pytest.mark.case("F6")
def test_a_job_of_infrastructure_errors_alone_has_a_page_without_a_rate(tmp_path: Path) -> None:
    job = load(write_job(tmp_path / "job", {"a": [INFRA, INFRA]}, message="no space"), KNOWN)
    page = read(page_of(job, to=tmp_path / "r.html"))
    assert "No verdict: none of 2 attempts says anything of agent." in page.text
    assert "sandbox unavailable" in page.text
    assert "no space" in page.text
    assert "nan" not in page.text.lower().split()


@pytest.mark.case("F10")
def test_the_legend_counts_every_attempt_once(job: Job, tmp_path: Path) -> None:
    text = read(page_of(job, to=tmp_path / "r.html")).text
    found = re.search(r"(\d+) attempts = ([^;.]*)", text)
    assert found
    assert sum(map(int, re.findall(r"\d+", found[2]))) == int(found[1]) == 120


@pytest.mark.case("F4")
def test_repeated_executions_are_shown_and_not_counted(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job", {"a": [1.0]})
    record = TrialResult.model_validate_json((folder / "t0000__1" / "result.json").read_bytes())
    record.outcome, record.reward, record.reward_valid = INFRA, None, False
    (folder / "t0000__1" / "result.json").write_text(record.model_dump_json())
    record.outcome, record.reward, record.retry, record.trial_name = Outcome.SCORED, 1.0, 1, "t0000__1r1"
    (folder / "t0000__1r1").mkdir()
    (folder / "t0000__1r1" / "result.json").write_text(record.model_dump_json())
    job = load(folder, KNOWN)
    assert [job.status(each) for each in job.attempts] == ["repeated", "passed"]
    assert verdict(job).line == "agent passed 1 of 1 attempt: 100.0%."


def test_a_job_that_is_running_says_what_is_pending(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job", {"a": [1.0], "b": [0.0]})
    (folder / "result.json").write_text(json.dumps({"n_total_trials": 5}))
    (folder / "t0009__1").mkdir()
    notes = verdict(load(folder, KNOWN)).notes
    assert "3 of 5 attempts say nothing of the agent (3 pending)" in notes[1]
    assert notes[2] == "3 attempts are still pending: this job is unfinished."


def test_what_a_stop_rule_spared_is_told_and_not_missing(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job", {"a": [1.0, INFRA], "b": [0.0]})
    decision = Decision(rule="success_rate", above=False, threshold=0.7, alpha=0.05, e_value=21.0, tasks=2)
    (folder / "result.json").write_text(json.dumps({"n_total_trials": 5, "stopped_early": decision.model_dump()}))
    said = verdict(load(folder, KNOWN))
    assert said.line == "agent passed 1 of 2 attempts: 50.0%."
    assert "1 of 3 attempts says nothing of the agent (1 infra error)" in said.notes[1]
    assert said.notes[2].startswith("Ended by its stop rule: the success rate is below 70.0%")
    assert said.notes[2].endswith("; 2 attempts were not needed.")


def test_a_job_that_has_just_begun_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "result.json").write_text(json.dumps({"n_total_trials": 4}))
    job = load(tmp_path / "job", KNOWN)
    text = read(page_of(job, to=tmp_path / "r.html")).text
    assert "Nothing has finished yet: none of 4 attempts says anything of unknown." in text
    assert "No attempt has ended yet." in text


@pytest.mark.parametrize("name", ["fail1", "term1", "q-sep1"])
def test_what_harbor_wrote_is_reported(name: str, tmp_path: Path) -> None:
    job = load(HARBOR / name, KNOWN)
    text = read(page_of(job, to=tmp_path / "r.html")).text
    assert len(job.attempts) == len(list((HARBOR / name).glob("*/result.json")))
    if name == "term1":
        assert "You are an AI assistant tasked with solving command-line tasks" in text
    if name == "fail1":
        assert "No verdict: only 7 of 18 attempts say anything of oracle." in text
        assert "RewardFileNotFoundError" in text


def test_every_step_stands_in_the_page_with_its_call_and_result(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job", {"a": [0.0]})
    turns = [{"user": "do it"}, {"agent": "I look.", "reasoning": "hm", "call": "ls", "output": "a.txt"}]
    write_trajectory(folder / "t0000__1", turns)
    text = read(page_of(load(folder, KNOWN), to=tmp_path / "r.html")).text
    assert "1 user" in text and "do it" in text
    assert "2 agent" in text and "reasoning hm" in text and "bash ls" in text
    assert "result exit code 0 duration sec 0.21 a.txt" in text


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (None, "No trajectory was recorded."),
        ("{", "The trajectory cannot be read: not strict JSON"),
        ('{"schema_version": "ATIF-v9"}', "The trajectory cannot be read"),
    ],
)
def test_a_trajectory_that_is_not_there_or_not_one_is_said_so(document: str | None, said: str, tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job", {"a": [1.0]})
    if document is not None:
        (folder / "t0000__1" / "agent").mkdir()
        (folder / "t0000__1" / "agent" / "trajectory.json").write_text(document)
    assert said in read(page_of(load(folder, KNOWN), to=tmp_path / "r.html")).text


def test_a_link_out_of_the_record_is_not_followed(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job", {"a": [1.0]})
    (tmp_path / "outside").mkdir()
    write_trajectory(tmp_path / "outside", [{"user": "a secret of the host"}])
    (tmp_path / "secret.txt").write_text("another secret of the host")
    (folder / "t0000__1" / "agent").symlink_to(tmp_path / "outside" / "agent")
    (folder / "t0000__1" / "verifier").mkdir()
    (folder / "t0000__1" / "verifier" / "test-stdout.txt").symlink_to(tmp_path / "secret.txt")
    assert "secret of the host" not in page_of(load(folder, KNOWN), to=tmp_path / "r.html")


def test_hostile_text_anywhere_adds_no_element_and_no_control_character(tmp_path: Path) -> None:
    plain = page_of(load(_everywhere(tmp_path / "plain", "words"), KNOWN), to=tmp_path / "plain.html")
    hostile = page_of(load(_everywhere(tmp_path / "hostile", HOSTILE), KNOWN), to=tmp_path / "hostile.html")
    marks = {"i"}
    expected = [tag for tag, _ in read(plain).tags if tag not in marks]
    found = read(hostile)
    assert [tag for tag, _ in found.tags if tag not in marks] == expected
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", hostile)
    assert r"\x1b[31mred\x1b[0m \x202egnp.exe\x00" in found.text


def _everywhere(folder: Path, text: str) -> Path:
    """A job in which every text that comes from outside is this one."""
    write_job(folder, {text: [0.0, 1.0]}, categories={text: [text]})
    for result in folder.glob("*/result.json"):

        def edit(record: TrialResult) -> None:
            record.agent_info.name = text
            record.task_tags = [text]
            record.outcome = record.outcome

        change(result, edit)
        write_trajectory(
            result.parent, [{"user": text}, {"agent": text, "reasoning": text, "call": text, "output": text}]
        )
        (result.parent / "verifier").mkdir()
        (result.parent / "verifier" / "test-stdout.txt").write_text(text)
    return folder


@given(st.text(max_size=300), st.integers(8, 400))
def test_inert_text_keeps_every_character_or_counts_what_is_gone(text: str, limit: int) -> None:
    head, left_out, tail = cut(text, limit)
    size = len(text.encode("utf-8", "replace"))
    kept = len(head.encode("utf-8", "replace")) + len(tail.encode("utf-8", "replace"))
    assert kept + left_out <= size
    assert size - kept - left_out <= 6, "at most two characters are cut in two"
    shown = str(inert(text, limit))
    assert all(char.isprintable() or char in "\n\t" for char in shown)
    assert not re.search(r"<(?!/?i[ >])", shown)


def test_a_long_log_loses_its_middle_and_says_how_much() -> None:
    shown = str(inert("a" * 50_000_000 + "the end", 6000))
    assert len(shown) < 6100
    assert "49,994,007 bytes left out" in shown
    assert shown.endswith("the end")


def test_the_page_has_a_bound_and_keeps_what_failed_last(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    job = load(realistic_job(folder, tasks=24, attempts=4, seed=2), KNOWN)
    small = replace(Bounds(), total=100_000)
    page = page_of(job, bounds=small, to=tmp_path / "r.html")
    rest = page_of(job, bounds=replace(Bounds(), total=0), to=tmp_path / "none.html")
    assert len(page.encode()) - len(rest.encode()) <= small.total
    assert "executions, those that passed and the oldest first, to keep this file within" in read(page).text
    trials = re.split(r'(?=<details class="trial )', page)[1:]
    assert len(trials) == 96
    shown = [each for each in trials if "<h4>Trajectory" in each]
    assert shown and all('class="trial failed"' in each for each in shown)


def test_of_two_failed_trials_the_later_is_kept(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job", {"a": [0.0], "b": [0.0], "c": [0.0]})
    for hour, result in zip((8, 10, 9), sorted(folder.glob("*/result.json")), strict=True):
        ended = datetime(2025, 1, 1, hour, tzinfo=UTC)
        change(result, lambda record, ended=ended: setattr(record, "finished_at", ended))  # type: ignore[misc]
    job = load(folder, KNOWN)
    template = environment().get_template("attempt.html.j2")
    whole, _ = bodies([job], template, Bounds())
    room = len(whole[0, 1]) + len(whole[0, 2])
    kept, left_out = bodies([job], template, replace(Bounds(), total=room))
    assert (list(kept), left_out) == ([(0, 1), (0, 2)], 1)


def test_a_long_trajectory_loses_its_middle(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job", {"a": [0.0]})
    write_trajectory(folder / "t0000__1", [{"user": f"turn {n} ends"} for n in range(500)])
    text = read(page_of(load(folder, KNOWN), to=tmp_path / "r.html")).text
    assert "300 steps left out" in text
    assert "turn 99 ends" in text and "turn 100 ends" not in text
    assert "turn 399 ends" not in text and "turn 400 ends" in text


def test_the_same_record_gives_the_same_bytes(job: Job, tmp_path: Path) -> None:
    again = load(job.folder, KNOWN)
    assert page_of(job, to=tmp_path / "a.html") == page_of(again, to=tmp_path / "b.html")
    first, second = (save(figures([each], None, KNOWN), tmp_path / name) for name, each in (("a", job), ("b", again)))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert [path.name for path in first] == ["forest.png", "radar.png", "pass-at-k.png"]


def test_the_policy_admits_one_style_and_one_script_and_nothing_else(job: Job, tmp_path: Path) -> None:
    page = page_of(job, to=tmp_path / "r.html")
    policy = next(a["content"] for _, a in read(page).tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy and policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    for _, attributes in read(page).tags:
        assert "style" not in attributes
        assert not {"src", "srcset", "data", "action"} & attributes.keys()
        assert (attributes.get("href") or "#").startswith("#")


def test_every_link_leads_somewhere_and_no_id_is_used_twice(job: Job, tmp_path: Path) -> None:
    tags = read(page_of(job, load(job.folder, KNOWN), to=tmp_path / "r.html")).tags
    ids = [str(attributes["id"]) for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {str(attributes["href"]).removeprefix("#") for tag, attributes in tags if tag == "a"}
    assert links <= set(ids)


def test_a_category_that_was_not_measured_is_a_gap_and_not_a_zero(tmp_path: Path) -> None:
    keys = ["memory", "coding", "skills"]
    ends = {f"{key}{n}": [0.0] for key in keys for n in range(5)} | {"hitl0": [1.0]}
    groups = {name: [name.rstrip("0123456789")] for name in ends}
    card = load(write_job(tmp_path / "job", ends, categories=groups), KNOWN).card
    assert spokes([card], KNOWN) == list(KNOWN)
    assert sorted(measured(card)) == sorted(keys), "a zero of five tasks is measured, one task is not"
    assert why_not([card], KNOWN) is None
    assert _bands(card) == 0, "of the three spokes no two are next to each other"
    groups |= {f"coding{n}": ["subagents"] for n in range(5)}
    card = load(write_job(tmp_path / "neighbours", ends, categories=groups), KNOWN).card
    assert _bands(card) == 1, "memory and subagents are"


def _bands(card: Scorecard) -> int:
    """The pieces of the radar between two spokes."""
    elements = ET.fromstring(radar([card], KNOWN).svg("")).iter("path")
    return sum("fill-first" in (each.get("class") or "") and each.get("opacity") == "0.16" for each in elements)


def test_two_categories_make_no_radar_and_the_page_says_why(tmp_path: Path) -> None:
    ends = {f"{key}{n}": [1.0] for key in ("memory", "coding") for n in range(5)}
    job = load(write_job(tmp_path / "job", ends, categories={name: [name[:-1]] for name in ends}), KNOWN)
    text = read(page_of(job, to=tmp_path / "r.html")).text
    assert "A radar needs 3 categories with enough tasks to say something; here 2 have them." in text


def test_figures_are_elements_without_ids_styles_or_references(job: Job) -> None:
    for figure in figures([job, job], compare(job.run, job.run, pair(job.run, job.run), KNOWN), KNOWN):
        root = ET.fromstring(str(figure.svg))
        assert root.get("role") == "img" and root.get("aria-label")
        for element in root.iter():
            assert element.tag in {"svg", "path", "text"}
            assert not {"id", "style", "clip-path", "href"} & set(element.keys())
            assert "#" not in (element.get("fill") or "") + (element.get("stroke") or "")


def test_labels_of_figures_are_text_and_never_formulas(tmp_path: Path) -> None:
    label = r"$\frac{a}{<b>&"
    job = load(write_job(tmp_path / "job", {"a": [1.0]}, categories={"a": [label]}), KNOWN)
    texts = [element.text for element in ET.fromstring(str(figures([job], None, KNOWN)[0].svg)).iter("text")]
    assert label in texts


def test_two_jobs_are_compared_on_the_tasks_that_both_have(tmp_path: Path) -> None:
    base = load(write_job(tmp_path / "a", {**{f"t{n}": [0.0] for n in range(8)}, "old": [1.0]}), KNOWN)
    new = load(write_job(tmp_path / "b", {**{f"t{n}": [1.0] for n in range(8)}, "new": [1.0]}), KNOWN)
    said = comparison(compare(base.run, new.run, pair(base.run, new.run), KNOWN))
    assert said.line == "B passes more often than A: 0.0% in A, 100.0% in B, on 8 tasks."
    assert "p = 0.0078" in said.notes[0]
    assert said.notes[1] == "The jobs are not of the same tasks; left out: 1 only in A: old; 1 only in B: new."
    text = read(page_of(base, new, to=tmp_path / "r.html")).text
    assert "8 tasks changed: 0 worse, 8 better" in text


def test_any_number_that_records_tell_of_behaviour_appears_by_itself(tmp_path: Path) -> None:
    class Later(Behaviour):
        loops: int | None = None
        gave_up: bool = False
        seconds: dict[str, float] = Field(default_factory=dict)

    folder = write_job(tmp_path / "job", {"a": [1.0, 0.0]})
    behaviours = [
        Later(steps=3, loops=2, gave_up=False, seconds={"model": 0.5}),
        Later(steps=5, loops=None, gave_up=True, seconds={"model": 1.5}),
    ]
    attempts = []
    for result, behaviour in zip(sorted(folder.glob("*/result.json")), behaviours, strict=True):
        record = TrialResult.model_validate_json(result.read_bytes())
        record.behaviour = behaviour
        attempts.append(Attempt.of(result.parent, record))
    job = replace(load(folder, KNOWN), attempts=tuple(attempts))
    assert [(each.name, each.n, each.mean, each.passed, each.failed) for each in traits(job)] == [
        ("steps", 2, 4, 3, 5),
        ("loops", 1, 2, 2, None),
        ("gave up", 2, 0.5, 0, 1),
        ("seconds: model", 2, 1, 0.5, 1.5),
    ]
    text = read(page_of(job, to=tmp_path / "r.html")).text
    assert "Loops 1 2 2 2 2 n/a" in text
    assert "Seconds: model 2 1 1 1.50 0.50 1.50" in text


def test_the_command_writes_the_page_next_to_the_record_and_says_where(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job", {"a": [1.0]})
    done = harness("report", folder, "--figures", tmp_path / "png")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("agent passed 1 of 1 attempt: 100.0%.\nreport: ")
    assert (folder / "report.html").is_file()
    assert [path.name for path in (tmp_path / "png").iterdir()] == ["forest.png"]


@pytest.mark.parametrize(
    ("argument", "said"),
    [("no", "no is not a job's folder"), ("empty", "empty holds no trials"), ("file", "is not a job's folder")],
)
def test_what_is_not_a_job_is_one_line_and_exit_code_2(
    argument: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    assert main(["report", str(tmp_path / argument)]) == 2
    done = capsys.readouterr()
    assert (done.out, done.err.count("\n")) == ("", 1)
    assert said in done.err


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, file = write_job(tmp_path / "job", {"a": [1.0]}), tmp_path / "no" / "r.html"
    assert main(["report", str(folder), "-o", str(file)]) == 2
    said = f"error: cannot write {file}: No such file or directory; name another file with -o\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("package", ["jinja2", "matplotlib.figure"])
def test_without_its_extra_the_command_names_the_line_that_helps(
    package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_job(tmp_path / "job", {"a": [1.0]})
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["report", str(folder)]) == 2
    assert capsys.readouterr().err == "error: reports need jinja2 and matplotlib: pip install 'harness-rl[report]'\n"
