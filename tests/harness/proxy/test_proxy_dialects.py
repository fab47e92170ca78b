"""Three dialects, through the SDKs that speak them: what goes upstream, what comes back, whole and in pieces."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from model_server import Answer, ModelServer, call, chunk, completion, failure, serving
from proxied import UPSTREAM_KEY, Trial, endpoint, plain_client, proxied

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}}
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}}
TWO_CALLS = completion(
    "Looking.",
    calls=[("a", "weather", '{"city": "Oslo"}'), ("b", "weather", '{"city": "Rome"}')],
    usage=USAGE,
    message={
        "role": "assistant",
        "content": "Looking.",
        "reasoning_content": "Two cities.",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}},
            {"id": "b", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}},
        ],
    },
)
STREAMED = Answer(
    chunks=[
        chunk({"role": "assistant", "reasoning_content": "Two "}),
        chunk({"reasoning_content": "cities."}),
        chunk({"content": "Look"}),
        chunk({"content": "ing."}),
        chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "weather", "arguments": '{"city": '}}]}),
        chunk({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "weather", "arguments": '{"city": "Ro'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"Oslo"}'}}]}),
        chunk({"tool_calls": [{"index": 1, "function": {"arguments": 'me"}'}}]}),
        chunk({}, finish="tool_calls"),
        chunk(usage=USAGE),
    ]
)


@asynccontextmanager
async def speaking(folder: Path, *answers: Any) -> AsyncIterator[tuple[ModelServer, Trial, Any, Any]]:
    """An upstream, a trial, and both SDKs with its key."""
    async with serving(*answers) as upstream, proxied(endpoint(upstream.url), folder) as trial:
        lease = trial.lease
        async with (
            openai.AsyncOpenAI(base_url=lease.openai_base_url, api_key=lease.key, max_retries=0) as gpt,
            anthropic.AsyncAnthropic(base_url=lease.anthropic_base_url, api_key=lease.key, max_retries=0) as claude,
        ):
            yield upstream, trial, gpt, claude


async def test_chat_passes_unknown_fields_both_ways(tmp_path: Path) -> None:
    answer = completion(
        "hi", message={"role": "assistant", "content": "hi", "reasoning_content": "r", "mood": 7}, zoo=[1]
    )
    async with speaking(tmp_path, answer) as (upstream, _, gpt, _):
        raw = await gpt.chat.completions.with_raw_response.create(
            model="theirs", messages=[{"role": "user", "content": "x", "name": "n"}], extra_body={"top_k": 5, "odd": {}}
        )
    body = json.loads(raw.text if isinstance(raw.text, str) else raw.text())
    assert body == answer.body
    sent = upstream.requests[0]
    assert sent["top_k"] == 5 and sent["odd"] == {} and sent["messages"][0]["name"] == "n"
    assert sent["model"] == "m", "the run's model is asked, whatever the agent calls it"
    assert upstream.headers[0]["authorization"] == f"Bearer {UPSTREAM_KEY}"


async def test_chat_streams_every_chunk_and_usage_only_to_those_who_ask(tmp_path: Path) -> None:
    async with speaking(tmp_path, STREAMED) as (upstream, _, gpt, _):
        for asked, expected in (({}, 9), ({"stream_options": {"include_usage": True}}, 10)):
            stream = await gpt.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "x"}], stream=True, **asked
            )
            assert len([each async for each in stream]) == expected
    assert all(each["stream_options"] == {"include_usage": True} for each in upstream.requests)


async def test_messages_become_a_chat_and_the_answer_a_message(tmp_path: Path) -> None:
    history: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "Compare.", "cache_control": {"type": "ephemeral"}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I ask."},
                {"type": "tool_use", "id": "q", "name": "weather", "input": {"city": "Bern"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "q", "content": [{"type": "text", "text": "rain"}]},
                {"type": "text", "text": "And the others?"},
            ],
        },
    ]
    async with speaking(tmp_path, TWO_CALLS) as (upstream, _, _, claude):
        answer = await claude.messages.create(
            model="claude-x",
            max_tokens=99,
            system=[{"type": "text", "text": "Be brief."}],
            messages=history,
            tools=[{"name": "weather", "description": "d", "input_schema": WEATHER}],
            tool_choice={"type": "any"},
            stop_sequences=["END"],
        )
    sent = upstream.requests[0]
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Compare."},
        {
            "role": "assistant",
            "content": "I ask.",
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "q", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "q", "content": "rain"},
        {"role": "user", "content": "And the others?"},
    ]
    assert sent["tools"][0]["function"] == {"name": "weather", "description": "d", "parameters": WEATHER}
    assert (sent["tool_choice"], sent["stop"], sent["max_tokens"]) == ("required", ["END"], 99)
    _check_message(answer)
    assert (answer.usage.input_tokens, answer.usage.cache_read_input_tokens, answer.usage.output_tokens) == (60, 40, 10)
    assert answer.model == "claude-x"


async def test_messages_stream_builds_the_same_message_from_interleaved_calls(tmp_path: Path) -> None:
    async with speaking(tmp_path, STREAMED) as (_, _, _, claude):
        async with claude.messages.stream(
            model="c", max_tokens=9, messages=[{"role": "user", "content": "x"}]
        ) as stream:
            pieces = [each async for each in stream.text_stream]
            answer = await stream.get_final_message()
    assert pieces == ["Look", "ing."]
    _check_message(answer)


def _check_message(answer: Any) -> None:
    kinds = [block.type for block in answer.content]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    assert (answer.content[0].thinking, answer.content[1].text) == ("Two cities.", "Looking.")
    assert [(each.id, each.name, each.input) for each in answer.content[2:]] == [
        ("a", "weather", {"city": "Oslo"}),
        ("b", "weather", {"city": "Rome"}),
    ]
    assert answer.stop_reason == "tool_use"


async def test_responses_become_a_chat_and_the_answer_a_response(tmp_path: Path) -> None:
    history: list[Any] = [
        {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"role": "user", "content": "Compare."},
        {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I ask."}]},
        {"type": "function_call", "call_id": "q", "name": "weather", "arguments": '{"city": "Bern"}'},
        {"type": "function_call", "call_id": "p", "name": "weather", "arguments": '{"city": "Bonn"}'},
        {"type": "function_call_output", "call_id": "q", "output": "rain"},
        {"type": "function_call_output", "call_id": "p", "output": [{"type": "input_text", "text": "sun"}]},
    ]
    async with speaking(tmp_path, TWO_CALLS) as (upstream, _, gpt, _):
        answer = await gpt.responses.create(
            model="g",
            instructions="Root.",
            input=history,
            max_output_tokens=99,
            tools=[
                {"type": "function", "name": "weather", "parameters": WEATHER, "strict": False},
                {"type": "web_search"},
            ],
        )
    sent = upstream.requests[0]
    assert [each["role"] for each in sent["messages"]] == ["system", "system", "user", "assistant", "tool", "tool"]
    spoken = sent["messages"][3]
    assert (spoken["content"], spoken["reasoning_content"]) == ("I ask.", "hm")
    assert [each["id"] for each in spoken["tool_calls"]] == ["q", "p"]
    assert [each["function"]["name"] for each in sent["tools"]] == ["weather"]
    assert sent["max_tokens"] == 99
    _check_response(answer)
    assert (answer.usage.input_tokens, answer.usage.input_tokens_details.cached_tokens) == (100, 40)


async def test_responses_stream_ends_with_the_same_response(tmp_path: Path) -> None:
    async with speaking(tmp_path, STREAMED) as (_, _, gpt, _):
        async with gpt.responses.stream(model="g", input="x") as stream:
            events = [each async for each in stream]
            answer = await stream.get_final_response()
    assert [each.delta for each in events if each.type == "response.output_text.delta"] == ["Look", "ing."]
    _check_response(answer)


def _check_response(answer: Any) -> None:
    assert [item.type for item in answer.output] == ["reasoning", "message", "function_call", "function_call"]
    assert answer.output_text == "Looking."
    assert [(each.call_id, json.loads(each.arguments)) for each in answer.output[2:]] == [
        ("a", {"city": "Oslo"}),
        ("b", {"city": "Rome"}),
    ]
    assert answer.status == "completed"


async def test_a_free_form_tool_is_a_function_of_one_text_and_comes_back_as_itself(tmp_path: Path) -> None:
    async with speaking(tmp_path, call("apply_patch", id="z", input="*** Begin")) as (upstream, _, gpt, _):
        answer = await gpt.responses.create(model="g", input="x", tools=[{"type": "custom", "name": "apply_patch"}])
        assert (answer.output[0].type, answer.output[0].input) == ("custom_tool_call", "*** Begin")
        await gpt.responses.create(
            model="g",
            input=[
                {"role": "user", "content": "x"},
                {"type": "custom_tool_call", "call_id": "z", "name": "apply_patch", "input": "*** Begin"},
                {"type": "custom_tool_call_output", "call_id": "z", "output": "done"},
            ],
        )
    sent = upstream.requests[1]["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"input": "*** Begin"}


@pytest.mark.case("C4")
async def test_a_cut_answer_says_so_in_every_dialect(tmp_path: Path) -> None:
    cut = completion("half", calls=[("a", "weather", '{"city": ')], finish="length")
    async with speaking(tmp_path, cut) as (_, _, gpt, claude):
        chat = await gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": "1"}])
        response = await gpt.responses.create(model="m", input="2")
        message = await claude.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "3"}])
    assert chat.choices[0].finish_reason == "length"
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert message.stop_reason == "max_tokens"


@pytest.mark.case("C3")
async def test_arguments_that_are_no_json_never_become_empty_ones(tmp_path: Path) -> None:
    async with speaking(tmp_path, completion(calls=[("a", "rm_all", '{"path": ')])) as (_, trial, _, claude):
        message = await claude.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}])
        assert message.content[0].input == {"__unparsed_arguments": '{"path": '}
    recorded = (await trial.end()).steps[1].tool_calls
    assert recorded and recorded[0].extra and recorded[0].extra["raw_arguments"] == '{"path": '


@pytest.mark.case("C5")
async def test_an_overflow_is_told_in_the_words_that_make_agents_compact(tmp_path: Path) -> None:
    full = failure(400, "too long", code="context_length_exceeded")
    async with speaking(tmp_path, full) as (upstream, trial, gpt, claude):
        with pytest.raises(openai.BadRequestError) as chat:
            await gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
        with pytest.raises(openai.BadRequestError) as response:
            await gpt.responses.create(model="m", input="x")
        with pytest.raises(anthropic.BadRequestError) as message:
            await claude.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}])
        assert trial.lease.overflowed and trial.lease.failure is None and not trial.lease.ended.is_set()
    assert chat.value.code == response.value.code == "context_length_exceeded"
    assert "prompt is too long" in str(message.value)
    assert len(upstream.requests) == 3, "an overflow is not asked again"


BAD = [
    ("chat/completions", {"messages": []}),
    ("chat/completions", {"messages": ["x"]}),
    ("responses", {"input": []}),
    ("responses", {"input": "x", "previous_response_id": "r"}),
    ("responses", {"input": [{"type": "teleport"}]}),
    ("chat/completions", {"messages": [{"role": "user", "content": "x"}], "tools": 5}),
    ("chat/completions", {"messages": [{"role": "user", "content": "x"}], "tools": ["x"]}),
    ("responses", {"input": [{"type": ["x"], "role": "user", "content": "x"}]}),
    ("responses", {"input": [{"role": "user", "content": [{"type": ["x"]}]}]}),
    ("messages", {}),
    ("messages", {"messages": [{"role": "user", "content": []}]}),
    ("messages", {"messages": [{"role": "wizard", "content": "x"}]}),
    ("messages", {"messages": [{"role": "user", "content": [{"type": "hologram"}]}]}),
]


@pytest.mark.parametrize(("path", "body"), BAD)
async def test_what_is_no_request_is_answered_400_and_asks_nobody(path: str, body: Any, tmp_path: Path) -> None:
    async with speaking(tmp_path, completion("x")) as (upstream, trial, _, _), plain_client() as client:
        headers = {"x-api-key": trial.lease.key}
        answer = await client.post(f"{trial.lease.openai_base_url}/{path}", json=body, headers=headers)
    assert (answer.status_code, upstream.requests) == (400, [])
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_calls_that_are_no_list_are_none_and_the_answer_is_on_record(tmp_path: Path) -> None:
    async with speaking(tmp_path, completion("hi")) as (upstream, trial, gpt, _):
        await gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": "x", "tool_calls": 5}])
        steps = (await trial.end()).steps
    assert [step.message for step in steps] == ["x", "hi"]
    assert upstream.requests[0]["messages"][0]["tool_calls"] == 5, "the endpoint may know what it is"


EMPTY = [
    completion(message={}),
    completion(message={"content": None, "reasoning_content": "r"}),
    completion(""),
]


@pytest.mark.case("C8")
@pytest.mark.parametrize("answer", EMPTY)
async def test_an_answer_without_content_is_one_in_every_dialect(answer: Answer, tmp_path: Path) -> None:
    async with speaking(tmp_path, answer) as (_, _, gpt, claude):
        assert (await gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": "1"}])).choices
        assert (await gpt.responses.create(model="m", input="2")).output_text == ""
        message = await claude.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "3"}])
        assert message.stop_reason == "end_turn"


async def test_messages_of_one_conversation_have_ids_of_their_own_also_where_the_endpoint_s_are_all_the_same(
    tmp_path: Path,
) -> None:
    """Claude Code takes messages of one id for one message."""
    async with speaking(tmp_path, completion("One."), completion("Two.")) as (_, _, _, claude):
        talk: list[Any] = [{"role": "user", "content": "Count."}]
        first = await claude.messages.create(model="m", max_tokens=9, messages=talk)
        talk += [{"role": "assistant", "content": "One."}, {"role": "user", "content": "Go on."}]
        second = await claude.messages.create(model="m", max_tokens=9, messages=talk)
    assert first.id != second.id
