"""How the end of an agent's program is read: from its own structured result, as the presets describe it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.agents.cli_native.config import End
from harness.agents.cli_native.ends import documents, read_end
from harness.agents.registry import resolve_agent
from harness.failures import AgentStop


def end_of(preset: str, text: str, exit_code: int | None = 0) -> tuple[str, str | None] | None:
    """What the preset makes of a result."""
    settings = resolve_agent(preset, model="m").settings
    found = read_end(settings.ends, text, exit_code)  # type: ignore[union-attr]
    return None if found is None else (found[0].value, found[1])


def lines(*documents: dict[str, Any]) -> str:
    return "".join(json.dumps(each) + "\n" for each in documents)


def test_claude_code_says_success_of_a_failure_and_is_not_believed() -> None:
    failed = {"type": "result", "subtype": "success", "is_error": True, "terminal_reason": "api_error", "result": "no"}
    assert end_of("claude-code", lines({"type": "system"}, failed), 1) == ("agent_exited", "no")
    assert end_of("claude-code", lines({**failed, "is_error": False})) == ("finished", None)


def test_claude_code_tells_its_turn_limit_and_a_full_window_apart() -> None:
    turns = {"type": "result", "subtype": "error_max_turns", "is_error": True}
    full = {
        "type": "result",
        "subtype": "success",
        "is_error": True,
        "terminal_reason": "prompt_too_long",
        "result": "x",
    }
    assert end_of("claude-code", lines(turns), 1) == ("max_turns", None)
    assert end_of("claude-code", lines(full), 1) == ("context_overflow", "x")


def test_mini_swe_agent_exits_with_0_where_it_gave_up() -> None:
    assert end_of("mini-swe-agent", '{"info": {"exit_status": "Submitted"}}') == ("finished", None)
    assert end_of("mini-swe-agent", '{"info": {"exit_status": "RepeatedFormatError"}}') == ("malformed_calls", None)
    assert end_of("mini-swe-agent", '{"info": {"exit_status": "TypeError"}}') == ("agent_exited", "TypeError")
    assert end_of("mini-swe-agent", "") is None


def test_codex_ends_as_its_last_turn_did() -> None:
    failed = {"type": "turn.failed", "error": {"message": "stream disconnected"}}
    room = {"type": "turn.failed", "error": {"message": "Codex ran out of room in the model's context window"}}
    assert end_of("codex", lines(failed, {"type": "turn.completed"})) == ("finished", None)
    assert end_of("codex", lines({"type": "turn.completed"}, failed)) == ("agent_exited", "stream disconnected")
    assert end_of("codex", lines(room), 1) == ("context_overflow", room["error"]["message"])  # type: ignore[index]


def test_qwen_code_tells_its_turn_limit_by_its_exit_code_only() -> None:
    failed = {"type": "result", "is_error": True, "error": {"message": "API error"}}
    loop = {"type": "result", "is_error": True, "error": {"message": "Loop detection halted the run"}}
    assert end_of("qwen-code", lines({"type": "result", "is_error": False})) == ("finished", None)
    assert end_of("qwen-code", lines(failed), 53) == ("max_turns", None)
    assert end_of("qwen-code", "", 53) == ("max_turns", None)
    assert end_of("qwen-code", lines(failed), 1) == ("agent_exited", "API error")
    assert end_of("qwen-code", lines(loop), 1) == ("stuck", "Loop detection halted the run")


def test_gemini_cli_says_in_its_last_line_whether_it_succeeded() -> None:
    said = {"type": "message", "role": "assistant", "content": "Done."}
    failed = {"type": "result", "status": "error", "error": {"type": "unknown", "message": "[API Error: no]"}}
    assert end_of("gemini-cli", lines(said, {"type": "result", "status": "success"})) == ("finished", None)
    assert end_of("gemini-cli", lines(said, failed), 144) == ("agent_exited", "[API Error: no]")
    assert end_of("gemini-cli", lines(said)) is None


def test_opencode_ends_with_an_answer_that_stops_or_with_an_error() -> None:
    called, stopped = ({"type": "step_finish", "part": {"reason": each}} for each in ("tool-calls", "stop"))
    failed = {"type": "error", "error": {"name": "APIError", "data": {"message": "no"}}}
    full = {"type": "error", "error": {"name": "ContextOverflowError", "data": {"message": "too long"}}}
    assert end_of("opencode", lines(called, stopped)) == ("finished", None)
    assert end_of("opencode", lines(stopped, called)) == ("agent_exited", "tool-calls")
    assert end_of("opencode", lines(called, failed), 1) == ("agent_exited", "no")
    assert end_of("opencode", lines(full, full), 1) == ("context_overflow", "too long")


def test_kimi_code_tells_of_its_session_after_a_good_end_alone() -> None:
    said = {"role": "assistant", "content": "Done."}
    hint = {"role": "meta", "type": "session.resume_hint", "session_id": "s"}
    assert end_of("kimi-code", lines(said, hint)) == ("finished", None)
    assert end_of("kimi-code", lines(said), 1) is None


def test_aider_exits_with_0_whether_or_not_it_was_answered() -> None:
    asked, answered, over = ({"event": each} for each in ("message_send_starting", "message_send", "exit"))
    assert end_of("aider", lines(asked, answered, over)) == ("finished", None)
    assert end_of("aider", lines(asked, answered, asked, over)) == ("agent_exited", None)


def test_the_last_document_that_fits_counts_and_torn_or_foreign_lines_do_not() -> None:
    ends = (End(stop=AgentStop.FINISHED, when={"ok": True}), End(stop=AgentStop.STUCK, when={"ok": False}))
    text = 'ut": 1}\n{"ok": true}\nwarning: {"ok": false}\n{"ok": false\n{"other": 1}\n[1]\nnull\n'
    assert read_end(ends, text, 0) == (AgentStop.FINISHED, None)
    assert read_end(ends, '{"ok": 0}', 0) is None
    assert read_end(ends, '[{"ok": true}, {"ok": false}]', 0) == (AgentStop.STUCK, None)


def test_a_pattern_and_a_list_of_values_fit_what_they_name() -> None:
    ends = (End(stop=AgentStop.FINISHED, when={"a.b": ["x", "y*"], "n": [1, 2]}),)
    assert read_end(ends, '{"a": {"b": "yes"}, "n": 2}', 1) is not None
    assert read_end(ends, '{"a": {"b": "no"}, "n": 2}', 1) is None
    assert read_end(ends, '{"a": 3, "n": 2}', 1) is None


@pytest.mark.case("E13")
def test_a_result_of_any_nonsense_is_read_without_an_error() -> None:
    for text in ("", "[" * 100_000, '{"a":' * 5000, "\x00\n{}", '{"type": NaN}', '{"k": "\\ud800"}', "{}\n" * 10_000):
        assert read_end((End(stop=AgentStop.STUCK, when={"type": "x"}),), text, 0) is None
        documents(text)
