"""A finished trial's folder as spans and marks: what is in the record is in the trace, and nothing else is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traced_jobs import BEGAN, SECRET, at, traced_job

from harness.errors import UsageError
from harness.redaction import Redactor
from harness.tracing.content import MAX_TEXT, Content
from harness.tracing.job import read_job
from harness.tracing.spans import Kind, Trace, time_ordered_uuid
from harness.tracing.trial import trace_of


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced_job(tmp_path_factory.mktemp("jobs"))


@pytest.fixture
def trace(job: Path) -> Trace:
    return trace_of(read_job(job), "a__1")


def test_a_trial_is_one_tree_of_model_calls_tool_calls_and_its_verification(trace: Trace) -> None:
    assert [(span.key, span.parent, span.kind.value, span.name) for span in trace.spans] == [
        ("", None, "trial", "acme/a"),
        ("environment", "", "setup", "environment"),
        ("agent", "", "agent", "coder"),
        ("agent/2", "agent", "model", "glm-5"),
        ("agent/2/call-1", "agent", "tool", "bash"),
        ("agent/2/call-2", "agent", "tool", "bash"),
        ("agent/3", "agent", "model", "glm-5"),
        ("agent/3/call-1", "agent", "tool", "task"),
        ("agent/3/call-1/agent", "agent/3/call-1", "agent", "coder"),
        ("agent/3/call-1/agent/2", "agent/3/call-1/agent", "model", "glm-5"),
        ("agent/3/call-1/agent/2/call-1", "agent/3/call-1/agent", "tool", "bash"),
        ("agent/4", "agent", "model", "glm-5"),
        ("verifier", "", "verification", "verifier"),
    ]


def test_a_span_lasts_as_long_as_the_record_says(trace: Trace) -> None:
    times = {span.key: (span.start, span.end) for span in trace.spans}
    assert times[""] == (at(0), at(60))
    assert times["agent"] == (at(5), at(50))
    assert times["agent/2"] == (at(7), at(10))  # the answer came after 10 s, and took 3
    assert times["agent/2/call-1"] == (at(10), at(10.5))
    assert times["agent/2/call-2"] == (at(10), at(19))
    assert times["verifier"] == (at(50), at(58))


def test_a_model_call_has_the_messages_that_are_new_and_says_how_many_came_before(trace: Trace) -> None:
    spans = {span.key: span for span in trace.spans}
    first, second = spans["agent/2"], spans["agent/3"]
    assert first.inputs == {"messages": [{"role": "user", "content": "Tidy up."}]}
    assert first.outputs["messages"][0]["reasoning_content"] == "Two at once."
    assert [each["tool_call_id"] for each in second.inputs["messages"]] == ["c1", "c2"]
    assert second.facts["earlier_messages"] == 2
    assert first.tokens is not None
    assert (first.tokens.input, first.tokens.cached, first.tokens.output, first.tokens.cost_usd) == (100, 40, 20, 0.1)
    assert second.tokens is not None
    assert second.tokens.cost_usd is None


def test_a_call_that_timed_out_is_an_error_and_an_exit_code_is_a_fact(trace: Trace) -> None:
    spans = {span.key: span for span in trace.spans}
    assert spans["agent/2/call-2"].error == "timeout"
    assert spans["agent/2/call-1"].error is None
    assert spans["agent/2/call-1"].facts["exit_code"] == 0


@pytest.mark.parametrize(
    ("trial", "expected"),
    [
        ("a__1", {"reward": 1.0, "success": 1.0, "infra": 0.0, "cost": 0.25, "steps": 7.0, "loops": 1.0}),
        ("a__2", {"failure_category": "infra_sandbox", "infra": 1.0}),
        ("b__1", {"success": 0.0, "failure_category": "capability", "infra": 0.0, "steps": 0.0}),
        ("b__2", {"reward": 0.5, "success": 0.0, "infra": 0.0, "cost": 0.25, "steps": 2.0}),
    ],
)
def test_what_is_unknown_has_no_mark_and_infrastructure_gives_no_reward(
    job: Path, trial: str, expected: dict[str, float | str]
) -> None:
    marks = {
        mark.key: mark.score if mark.value is None else mark.value for mark in trace_of(read_job(job), trial).marks
    }
    assert marks == {**expected, **({"reward.style": 0.5} if trial == "a__1" else {})}


def test_only_a_trial_that_was_not_scored_is_an_error(job: Path) -> None:
    facts = read_job(job)
    assert [trace_of(facts, name).root.error for name in ("a__1", "a__2", "b__1", "b__2")] == [
        None,
        "sandbox_unavailable",
        "agent_timeout",
        None,
    ]


def test_ids_are_the_same_each_time_and_no_two_spans_or_marks_share_one(job: Path, trace: Trace) -> None:
    again = trace_of(read_job(job), "a__1")
    keys = [span.key for span in trace.spans] + [f"mark:{mark.key}" for mark in trace.marks]
    ids = [trace.id_of(key) for key in keys]
    assert ids == [again.id_of(key) for key in keys]
    assert len(set(ids)) == len(ids)
    assert trace_of(read_job(job), "b__2").id_of("") not in ids


@settings(max_examples=40)
@given(st.datetimes(min_value=BEGAN.replace(tzinfo=None)), st.text())
def test_an_id_is_a_uuid_of_version_7_that_tells_its_time(when: object, seed: str) -> None:
    moment = when.replace(tzinfo=BEGAN.tzinfo)  # type: ignore[attr-defined]
    id_ = time_ordered_uuid(moment, seed)
    assert id_.version == 7
    assert id_.variant == "specified in RFC 4122"
    assert id_.int >> 80 == int(moment.timestamp() * 1000)


def test_content_is_hidden_where_asked_for_and_names_and_numbers_stay(trace: Trace) -> None:
    call = next(span for span in trace.spans if span.key == "agent/2/call-1")
    hidden = Content(inputs=False, outputs=False).of(call)
    assert (hidden.inputs, hidden.outputs, hidden.error_text) == ({}, {}, "")
    assert hidden.facts == call.facts
    assert Content(outputs=False).of(call).inputs == {"command": "ls"}


def test_a_secret_leaves_in_no_field(job: Path) -> None:
    facts = read_job(job)
    content = Content(redact=Redactor([SECRET]))
    for name in ("a__1", "a__2", "b__1"):
        trace = trace_of(facts, name)
        assert SECRET in repr(trace)
        assert SECRET not in repr([content.of(span) for span in trace.spans])


def test_a_long_text_is_cut_in_the_middle() -> None:
    cut = Content().text("a" * MAX_TEXT + "b")
    assert len(cut) < MAX_TEXT + 50
    assert cut.endswith("b")


@pytest.mark.parametrize("damage", ["not json", "[]", None])
def test_a_trajectory_that_cannot_be_read_costs_only_its_own_spans(
    job: Path, tmp_path: Path, damage: str | None
) -> None:
    copy = tmp_path / "job"
    shutil.copytree(job, copy)
    path = copy / "a__1" / "agent" / "trajectory.json"
    if damage is None:
        path.rename(tmp_path / "elsewhere.json")
        path.symlink_to(tmp_path / "elsewhere.json")
    else:
        path.write_text(damage)
    trace = trace_of(read_job(copy), "a__1")
    assert [span.kind for span in trace.spans] == [Kind.TRIAL, Kind.SETUP, Kind.AGENT, Kind.VERIFICATION]
    assert ("trajectory" in trace.spans[2].facts) == (damage is not None)  # a link is no file of the record


def test_a_folder_of_trials_that_another_harness_wrote_is_a_job_too(job: Path, tmp_path: Path) -> None:
    copy = tmp_path / "theirs"
    shutil.copytree(job, copy)
    for name in ("config.json", "lock.json"):
        (copy / name).unlink()
    (copy / "result.json").write_text(json.dumps({"id": "j1"}))
    assert read_job(copy).experiment == "theirs-j1"
    with pytest.raises(UsageError, match="not a job's folder"):
        read_job(tmp_path)  # the folder of jobs
