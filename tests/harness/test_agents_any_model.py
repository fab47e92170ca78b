"""Whatever a model says, the run ends with a reason, every request was valid, and so is the trajectory."""

from __future__ import annotations

from typing import Any

import pytest
from agent_runs import play, say, scripted_agent
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.failures import AgentStop

TEXT = st.text(st.characters(codec=None), max_size=30)
ARGUMENTS = st.sampled_from(
    [
        {"command": "echo hi"},
        {"path": "/a", "content": "x"},
        {"path": "/a"},
        {"path": ".", "pattern": "("},
        {"path": "/a", "old": "x", "new": "y"},
        {},
        '{"command": "ls"',
        '{"path": 7}',
        "[]",
        "null",
        '{"path": "\\ud800"}',
    ]
)
CALL = st.tuples(
    st.sampled_from(["bash", "read", "write", "edit", "ls", "grep", "glob", "nosuch", "", "é!"]), ARGUMENTS | TEXT
)
REPLY = st.builds(
    lambda text, calls, finish, tokens: say(text, *calls, finish_reason=finish, prompt_tokens=tokens),
    TEXT | st.just(""),
    st.lists(CALL, max_size=4),
    st.sampled_from([None, "stop", "tool_calls", "length"]),
    st.none() | st.integers(0, 1000),
)


@settings(max_examples=60)
@given(
    replies=st.lists(REPLY, max_size=8),
    on_end=st.sampled_from(["finish", "repeat"]),
    overflows=st.lists(st.integers(1, 8), max_size=3),
    compact=st.booleans(),
    stuck=st.none() | st.integers(2, 3),
)
async def test_every_run_ends_with_a_reason_and_a_valid_record(
    tmp_path_factory: pytest.TempPathFactory,
    replies: list[dict[str, Any]],
    on_end: str,
    overflows: list[int],
    compact: bool,
    stuck: int | None,
) -> None:
    agent, model = scripted_agent(
        *replies,
        on_end=on_end,
        overflows_at=overflows,
        compact=compact,
        compact_keep_messages=3,
        max_turns=10,
        token_budget=5000,
        stuck_after=stuck,
    )
    ran = await play(agent, tmp_path_factory.mktemp("any"))
    assert ran.result.stop in AgentStop
    assert sum(step.source == "agent" for step in ran.trajectory.steps) <= 10
    assert len(model.sent) <= 20
    for step in ran.trajectory.steps:
        asked = [call.tool_call_id for call in step.tool_calls or ()]
        answered = [each.source_call_id for each in step.observation.results] if step.observation else []
        assert sorted(asked) == sorted(map(str, answered)), "every call has exactly one result"
