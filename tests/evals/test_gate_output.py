"""What the gate writes: whole, valid in its format, and inert whatever tasks are called."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st
from runs import run_of, task_run, uniform

from evals.categories import load_categories
from evals.escape import annotation, annotation_property, markdown, xml
from evals.gate.judge import GateResult, judge
from evals.gate.output.document import to_json
from evals.gate.output.github import MAX_ANNOTATIONS, MAX_SUMMARY, to_annotations, write_step_files
from evals.gate.output.junit import to_junit
from evals.gate.output.markdown import MARKER, cut, to_markdown
from evals.gate.output.text import to_text
from evals.gate.policy import Policy
from evals.gate.quarantine import Entry
from evals.run import Run

SCHEMA = xmlschema.XMLSchema(Path(__file__).parent / "data" / "junit.xsd")
TODAY = date(2026, 6, 1)
HOSTILE = (
    "<script>alert(1)</script>",
    "a\x1b[31mred\x1b[0m",
    "x|y|z\n## heading",
    "\n::error::owned",
    "::set-output name=verdict::pass",
    "\u202egnp.exe",
    "[click](http://evil) ![i](http://evil/x.png)",
    "@everyone `code` *bold* ]]>",
    "\x00\ud800\ufffe",
    "%0A::error::owned",
    "k" * 5000,
)


def judged(base: Run, new: Run, **policy: object) -> GateResult:
    entry = Entry("t049", "<b>flaky</b>", TODAY)
    known = load_categories()
    return judge(base, new, Policy(**policy), known, quarantine=[entry], today=TODAY)  # type: ignore[arg-type]


def hostile_result() -> GateResult:
    base = [task_run(name, 3, 3, categories=(name[:40],), trials=(name[:60],), cost=1.0) for name in HOSTILE]
    filler = list(uniform(50, 150, 3).tasks.values())
    new = [replace(task, passed=0, rewards=0.0) for task in base]
    lost = replace(filler[3], counted=2, passed=2)
    run = run_of([*new, *filler[:3], lost, *filler[4:]], agent="<img src=x>", label="jobs/::error::x\n")
    return judged(run_of([*base, *filler]), replace(run, findings=("<i>\x07</i>",)))


RESULTS = {
    "pass": judged(uniform(100, 240, 3), uniform(100, 240, 3)),
    "fail": judged(uniform(100, 240, 3), uniform(100, 200, 3)),
    "invalid": judged(uniform(20, 20, 1), run_of([task_run(f"t{n:03}", 0, 0, 1) for n in range(20)])),
    "hostile": hostile_result(),
}
EACH = pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)


@EACH
def test_junit_is_valid_and_its_counts_are_those_of_its_cases(result: GateResult) -> None:
    text = to_junit(result)
    SCHEMA.validate(text)
    suite = ET.fromstring(text)[0]
    cases = suite.findall("testcase")
    assert int(suite.get("tests", "")) == len(cases)
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(attribute, "")) == sum(case.find(tag) is not None for case in cases)
    assert cases[-1].get("name") == "gate"


def test_junit_tells_what_the_agent_cannot_from_what_infrastructure_took() -> None:
    cases = {case.get("name"): case for case in ET.fromstring(to_junit(RESULTS["invalid"])).iter("testcase")}
    assert cases["t003"].find("error") is not None
    assert cases["gate"].find("error") is not None
    cases = {case.get("name"): case for case in ET.fromstring(to_junit(RESULTS["fail"])).iter("testcase")}
    assert cases["gate"].find("failure") is not None
    assert cases["t049"].find("skipped") is not None
    cases = {case.get("name"): case for case in ET.fromstring(to_junit(RESULTS["pass"])).iter("testcase")}
    assert [child.tag for child in cases["gate"]] == ["system-out"]


@EACH
def test_json_is_strict_versioned_and_agrees_with_the_result(result: GateResult) -> None:
    found = json.loads(to_json(result), parse_constant=pytest.fail)
    assert (found["format"], found["version"]) == ("harness-gate", 1)
    assert (found["verdict"], found["exit_code"]) == (result.verdict.value, result.exit_code)
    assert found["reasons"] == list(result.reasons)
    assert found["policy"]["alpha"] == 0.05
    assert to_json(result).isascii()


@EACH
def test_markdown_has_its_verdict_first_and_no_foreign_markup(result: GateResult) -> None:
    text = to_markdown(result)
    assert text.startswith(f"{MARKER}\n## ")
    assert result.verdict.value.upper() in text.splitlines()[1]
    assert set(re.findall(r"<[^>]*>", text)) <= {MARKER, "<details>", "<summary>", "</summary>", "</details>"}
    assert not re.search(r"(?<!\\)\]\(|(?<!\\)`|https?:/|(?<!\\)@", text)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} <= {5, 7}


@EACH
def test_no_line_of_text_holds_a_control_character(result: GateResult) -> None:
    text = to_text(result)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert text.splitlines()[0].startswith(result.verdict.value.upper())
    assert "\n::" not in text


@EACH
def test_annotations_are_few_and_none_is_smuggled_in(result: GateResult) -> None:
    lines = to_annotations(result).splitlines()
    assert 1 <= len(lines) <= MAX_ANNOTATIONS
    assert all(re.match(r"::(error|warning|notice) title=[^:,\x00-\x1f]*::", line) for line in lines)
    assert lines[0].startswith({"pass": "::notice", "fail": "::error", "invalid": "::error"}[result.verdict.value])


def test_the_step_files_are_appended_to_and_the_summary_stays_below_what_github_takes(tmp_path: Path) -> None:
    summary, output = tmp_path / "summary.md", tmp_path / "output"
    summary.write_text("x" * (MAX_SUMMARY - 700))
    write_step_files(RESULTS["fail"], {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(output)})
    assert summary.stat().st_size <= MAX_SUMMARY
    assert "Cut here" in summary.read_text()
    assert output.read_text() == "verdict=fail\n"
    write_step_files(RESULTS["fail"], {})


def test_a_thousand_changed_tasks_fit_into_a_step_summary() -> None:
    base, new = (run_of([task_run(f"{'<' * 290}{n}", p, 1) for n in range(1000)]) for p in (1, 0))
    text = to_markdown(judged(base, new))
    assert len(text.encode()) <= MAX_SUMMARY
    assert text.endswith("gate.json._\n")


@given(st.text(), st.integers(0, 200))
def test_cutting_keeps_whole_lines_or_nothing(text: str, size: int) -> None:
    text = text.encode("utf-8", "replace").decode()
    found = cut(text, size)
    assert found == text or len(found.encode()) <= max(size, 60)


@given(st.text(max_size=400))
def test_escaped_text_is_inert(text: str) -> None:
    assert not re.search(r"[<>\n\r@:]", markdown(text).replace("&#64;", "").replace("&#58;", ""))
    assert not re.search(r"(?<!\\)[`*_\[\]|]", re.sub(r"\\\\", "", markdown(text)))
    assert "\n" not in annotation(text)
    assert "\r" not in annotation(text)
    assert not set(annotation_property(text)) & set(":,\n\r")
    element = ET.Element("a", b=xml(text))
    element.text = xml(text)
    ET.fromstring(ET.tostring(element))
