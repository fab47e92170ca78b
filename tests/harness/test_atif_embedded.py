"""Embedded trajectories: whatever a run and its sub-agents write, the document is valid at every moment."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.atif.model import Metrics, ToolCall
from harness.atif.reader import findings, load_trajectory, usage_of
from harness.atif.usage import Usage
from harness.atif.writer import INTERRUPTED, TrajectoryWriter

TEXT = st.text(st.characters(codec=None), max_size=200)


def writer_in(folder: Path, **fields: Any) -> TrajectoryWriter:
    return TrajectoryWriter(
        folder / "trajectory.json", session_id="s", agent_name="a", agent_version="1", model_name=None, **fields
    )


def calls(*ids: str) -> list[ToolCall]:
    return [ToolCall(tool_call_id=each, function_name="task", arguments={}) for each in ids]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), TEXT), max_size=30), st.booleans())
def test_the_document_is_valid_after_every_write_of_anybody(writes: list[tuple[int, int, str]], close: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        main = writer_in(Path(name))
        main.user("go")
        subs: list[TrajectoryWriter] = []
        open_calls: list[str] = []
        paid = 0
        for kind, which, text in writes:
            target = subs[which % len(subs)] if subs and which else main
            metrics = Metrics(prompt_tokens=7, completion_tokens=1)
            match kind:
                case 0:
                    main.agent(text, tool_calls=calls("c1", "c2"), metrics=metrics)
                    open_calls, paid = ["c1", "c2"], paid + 1
                case 1 if open_calls:
                    subs.append(main.subagent(open_calls[-1], description=text))
                case 2 if open_calls:
                    main.result(open_calls.pop(), text)
                case 3 if target is not main:
                    target.close()
                    subs.remove(target)
                case _:
                    target.agent(text, metrics=metrics)
                    paid += 1
                    if target is main:
                        open_calls = []
            document = load_trajectory(main.path)
            assert findings(document) == []
            assert all(findings(each) == [] for each in document.subagent_trajectories or ())
        if close:
            main.close()
        document = load_trajectory(main.path)
        totals = Usage()
        for each in (document, *(document.subagent_trajectories or ())):
            totals = totals.and_of(usage_of(each))
        assert totals == main.usage
        assert totals.calls == paid


def test_a_call_that_never_returned_still_refers_to_its_sub_agent(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.agent("", tool_calls=calls("c1"))
    inner = writer.subagent("c1", description="look")
    assert load_trajectory(writer.path).subagent_trajectories is None, "a document needs a step"
    inner.agent("", tool_calls=calls("i1"))
    writer.close()
    document = load_trajectory(writer.path)
    assert document.steps[0].observation is not None
    (result,) = document.steps[0].observation.results
    (embedded,) = document.subagent_trajectories or ()
    assert result.content == INTERRUPTED
    assert result.subagent_trajectory_ref is not None
    assert result.subagent_trajectory_ref[0].trajectory_id == embedded.trajectory_id == "s/subagent-1"
    assert embedded.steps[0].observation is not None
    assert embedded.steps[0].observation.results[0].content == INTERRUPTED
    with pytest.raises(ValueError, match="closed"):
        inner.user("too late")


def test_only_a_call_of_the_latest_step_can_start_a_sub_agent(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.agent("", tool_calls=calls("c1"))
    writer.user("next")
    with pytest.raises(ValueError, match="not a call of the latest step"):
        writer.subagent("c1", description="look")


def test_what_is_copied_of_an_earlier_trajectory_costs_nothing_and_refers_to_nobody(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = writer_in(tmp_path / "one")
    first.user("go")
    first.agent("", tool_calls=calls("c1"), metrics=Metrics(prompt_tokens=5, completion_tokens=5, cost_usd=1.0))
    first.subagent("c1", description="look").user("x")
    first.result("c1", "seen")
    first.close()
    second = writer_in(tmp_path / "two")
    for step in load_trajectory(first.path).steps:
        second.copy(step)
    second.user("go on")
    second.close()
    document = load_trajectory(second.path)
    assert [step.is_copied_context for step in document.steps] == [True, True, None]
    assert findings(document) == []
    assert second.usage == Usage()


def test_secrets_are_redacted_in_embedded_trajectories_too(tmp_path: Path) -> None:
    writer = writer_in(tmp_path, redact=lambda text: text.replace("s3cret", "***"))
    writer.agent("", tool_calls=calls("c1"))
    inner = writer.subagent("c1", description="find s3cret")
    inner.user("it is s3cret")
    writer.close()
    assert "s3cret" not in writer.path.read_text()
