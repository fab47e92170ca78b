"""The history that a model is sent stays valid whatever is removed from it."""

from __future__ import annotations

import pytest
from agent_runs import require_valid
from hypothesis import given
from hypothesis import strategies as st

from harness.agents.tool_calling.history import History
from harness.agents.tool_calling.output import shorten
from harness.llm.protocol import Message, ToolRequest

HEAD = (Message(role="system", content="S"), Message(role="user", content="U"))


def answer(*ids: str) -> Message:
    return Message(
        role="assistant", content="A", tool_calls=tuple(ToolRequest(id=each, name="ls", arguments="{}") for each in ids)
    )


def result(call_id: str, content: str = "T") -> Message:
    return Message(role="tool", content=content, tool_call_id=call_id)


@pytest.mark.case("C11")
def test_the_kept_window_begins_with_a_whole_group_and_a_huge_result_is_shortened() -> None:
    history = History(HEAD)
    history.add(answer("c1", "c2"), result("c1"), result("c2"))
    history.add(answer("c3"), result("c3", "x" * 600_000))
    assert history.compact(keep_messages=2, max_result_chars=4000)
    messages = history.messages()
    require_valid(messages)
    assert [message.role for message in messages] == ["system", "user", "assistant", "tool"]
    assert [call.id for call in messages[2].tool_calls] == ["c3"]
    assert sum(len(message.content) for message in messages) < 4500


@pytest.mark.case("C11")
@given(
    widths=st.lists(st.integers(0, 4), max_size=12),
    keep=st.integers(1, 20),
    size=st.integers(0, 3000),
    limit=st.integers(100, 2000),
)
def test_no_compaction_separates_a_call_from_its_results(widths: list[int], keep: int, size: int, limit: int) -> None:
    history = History(HEAD)
    for number, width in enumerate(widths):
        ids = [f"{number}.{index}" for index in range(width)]
        if ids:
            history.add(answer(*ids), *(result(each, "x" * size) for each in ids))
        else:
            history.nudge(f"go on {number}")
    before = history.messages()
    changed = history.compact(keep_messages=keep, max_result_chars=limit)
    after = history.messages()
    require_valid(after)
    assert after[0] == HEAD[0] and after[1].content.startswith("U")
    assert sum(len(m.content) for m in after) <= sum(len(m.content) for m in before) + 100  # the word on it
    assert all(len(m.content) < limit + 100 for m in after if m.role == "tool")
    if not changed:
        assert after == before


def test_the_same_words_are_not_repeated_in_a_row() -> None:
    history = History(HEAD)
    history.nudge("go on")
    history.nudge("go on")
    assert history.messages()[-1].content == "U\n\ngo on"


@given(st.text(max_size=400), st.integers(10, 200))
def test_shortened_text_keeps_its_head_and_tail_and_says_what_is_missing(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= len(text)
    if short == text:
        assert len(text) < limit + 60, "whole only if a note would save nothing"
        return
    head, tail = limit * 2 // 3, limit - limit * 2 // 3
    assert short.startswith(text[:head]) and short.endswith(text[-tail:])
    assert f"{len(text) - limit} of {len(text)} characters left out" in short
