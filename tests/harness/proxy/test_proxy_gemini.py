"""Google's Gemini API, through Google's own SDK: what goes upstream, what comes back, whole and in pieces."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import errors, types
from model_server import Answer, ModelServer, chunk, completion, failure, serving
from proxied import Trial, endpoint, plain_client, proxied

from harness.failures import AgentStop
from harness.proxy import Budget

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}}
TWO_CALLS = completion(
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
    finish="tool_calls",
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
THOUGHTS = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(include_thoughts=True))


@asynccontextmanager
async def speaking(
    folder: Path, *answers: Any, budget: Budget | None = None
) -> AsyncIterator[tuple[ModelServer, Trial, Any]]:
    """An upstream, a trial, and Google's models through the SDK with its key."""
    async with serving(*answers) as upstream, proxied(endpoint(upstream.url), folder, budget=budget) as trial:
        with httpx.Client(verify=False) as unused:
            async with plain_client() as plain:
                options = types.HttpOptions(
                    base_url=trial.lease.google_base_url, httpx_client=unused, httpx_async_client=plain
                )
                client = genai.Client(api_key=trial.lease.key, vertexai=False, http_options=options)
                yield upstream, trial, client.aio.models


def _call(name: str, id: str | None = None, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=id, name=name, args=args))


def _result(name: str, id: str | None = None, **response: Any) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=id, name=name, response=response))


def _content(role: str, *parts: types.Part) -> types.Content:
    return types.Content(role=role, parts=list(parts))


async def test_contents_become_a_chat_and_the_answer_a_candidate(tmp_path: Path) -> None:
    history = [
        _content("user", types.Part(text="Compare.")),
        _content(
            "model", types.Part(text="hm", thought=True), types.Part(text="I ask."), _call("weather", "q", city="Bern")
        ),
        _content("user", _result("weather", "q", output="rain"), types.Part(text="And the others?")),
    ]
    city = types.Schema(type=types.Type.STRING, nullable=True, max_length=80)
    weather = types.FunctionDeclaration(
        name="weather", description="d", parameters=types.Schema(type=types.Type.OBJECT, properties={"city": city})
    )
    plain = types.FunctionDeclaration(name="now", parameters_json_schema={"type": "object"})
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        tools=[types.Tool(function_declarations=[weather, plain]), types.Tool(google_search=types.GoogleSearch())],
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode.ANY)
        ),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        thinking_config=types.ThinkingConfig(include_thoughts=True),
        max_output_tokens=99,
        temperature=0.5,
        top_k=5,
        stop_sequences=["END"],
    )
    async with speaking(tmp_path, TWO_CALLS) as (upstream, _, models):
        answer = await models.generate_content(model="gemini-x", contents=history, config=config)
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
    schema = {"type": "object", "properties": {"city": {"type": ["string", "null"], "maxLength": 80}}}
    assert [each["function"] for each in sent["tools"]] == [
        {"name": "weather", "description": "d", "parameters": schema},
        {"name": "now", "description": "", "parameters": {"type": "object"}},
    ]
    assert (sent["tool_choice"], sent["stop"], sent["max_tokens"]) == ("required", ["END"], 99)
    assert (sent["temperature"], sent["top_k"], sent["model"], sent["stream"]) == (0.5, 5, "m", False)
    _check([answer])
    usage = answer.usage_metadata
    counts = (usage.prompt_token_count, usage.cached_content_token_count, usage.candidates_token_count)
    assert (*counts, usage.total_token_count) == (100, 40, 10, 110)
    assert answer.model_version == "gemini-x"


async def test_a_stream_builds_the_same_candidate_from_interleaved_calls(tmp_path: Path) -> None:
    async with speaking(tmp_path, STREAMED) as (_, trial, models):
        pieces = [each async for each in await models.generate_content_stream(model="g", contents="x", config=THOUGHTS)]
        assert [[part.text for part in each.candidates[0].content.parts] for each in pieces] == [
            ["Two "],
            ["cities."],
            ["Look"],
            ["ing."],
            [None, None],
        ]
        recorded = (await trial.end()).steps[1]
    _check(pieces)
    assert pieces[-1].usage_metadata.total_token_count == 110
    assert (recorded.message, recorded.reasoning_content) == ("Looking.", "Two cities.")


def _check(pieces: list[Any]) -> None:
    parts = [part for piece in pieces for part in piece.candidates[0].content.parts]
    assert "".join(part.text for part in parts if part.thought) == "Two cities."
    assert "".join(part.text for part in parts if part.text and not part.thought) == "Looking."
    calls = [part.function_call for part in parts if part.function_call]
    assert [(each.id, each.name, each.args) for each in calls] == [
        ("a", "weather", {"city": "Oslo"}),
        ("b", "weather", {"city": "Rome"}),
    ]
    assert pieces[-1].candidates[0].finish_reason == types.FinishReason.STOP


async def test_thoughts_are_told_to_those_who_ask_for_them(tmp_path: Path) -> None:
    async with speaking(tmp_path, TWO_CALLS, STREAMED) as (_, trial, models):
        whole = await models.generate_content(model="g", contents="x")
        pieces = [each async for each in await models.generate_content_stream(model="g", contents="y")]
        steps = [step for step in (await trial.end()).steps if step.source == "agent"]
    assert not any(part.thought for each in (whole, *pieces) for part in each.candidates[0].content.parts)
    assert steps[0].reasoning_content == "Two cities.", "they are on record all the same"


async def test_the_sdk_calls_functions_by_itself_and_the_conversation_stays_one(tmp_path: Path) -> None:
    def weather(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    async with speaking(tmp_path, TWO_CALLS, completion("Rain.")) as (upstream, trial, models):
        answer = await models.generate_content(
            model="g", contents="Compare.", config=types.GenerateContentConfig(tools=[weather])
        )
        trajectory = await trial.end()
    assert answer.text == "Rain."
    results = [(each["tool_call_id"], each["content"]) for each in upstream.requests[1]["messages"][2:]]
    assert results == [("a", "rain in Oslo"), ("b", "rain in Rome")]
    assert [step.source for step in trajectory.steps] == ["user", "agent", "agent"]
    assert not trajectory.subagent_trajectories


async def test_calls_and_results_without_ids_belong_together_by_name_and_order(tmp_path: Path) -> None:
    history = [
        _content("user", types.Part(text="x")),
        _content("model", _call("weather", city="Oslo"), _call("time"), _call("weather", city="Rome")),
        _content(
            "user", _result("time", result="noon"), _result("weather", rain=True), _result("weather", "odd", error="no")
        ),
    ]
    async with speaking(tmp_path, completion("ok")) as (upstream, _, models):
        await models.generate_content(model="g", contents=history)
    called, *results = upstream.requests[0]["messages"][1:]
    first, second, third = (each["id"] for each in called["tool_calls"])
    assert len({first, second, third}) == 3
    assert [(each["tool_call_id"], each["content"]) for each in results] == [
        (second, "noon"),
        (first, '{"rain": true}'),
        (third, '{"error": "no"}'),
    ]


async def test_a_result_that_is_said_twice_is_one(tmp_path: Path) -> None:
    """Gemini CLI says all of them twice once it resumes a session."""
    results = [_result("weather", id, output=id) for id in ("a", "a", "b", "b")]
    history = [
        _content("user", types.Part(text="x")),
        _content("model", _call("weather", "a"), _call("weather", "b"), types.Part(thought_signature=b"s")),
        _content("user", *results),
    ]
    async with speaking(tmp_path, completion("ok")) as (upstream, _, models):
        await models.generate_content(model="g", contents=history)
    said = [(each["tool_call_id"], each["content"]) for each in upstream.requests[0]["messages"][2:]]
    assert said == [("a", "a"), ("b", "b")]


async def test_images_pass_and_answers_in_json_are_asked_for_by_a_schema(tmp_path: Path) -> None:
    image = types.Part.from_bytes(data=b"png", mime_type="image/png")
    config = types.GenerateContentConfig(
        response_mime_type="application/json", response_schema=types.Schema(type=types.Type.ARRAY, min_items=1)
    )
    async with speaking(tmp_path, completion("[1]")) as (upstream, _, models):
        await models.generate_content(model="g", contents=[image, "What is it?"], config=config)
    sent = upstream.requests[0]
    assert sent["messages"][0]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
        {"type": "text", "text": "What is it?"},
    ]
    schema = {"type": "array", "minItems": 1}
    assert sent["response_format"] == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


async def test_only_functions_that_may_be_called_are_offered(tmp_path: Path) -> None:
    tools = [{"function_declarations": [{"name": "one"}, {"name": "two"}]}]
    body = {
        "contents": [{"parts": [{"text": "x"}]}],
        "system_instruction": {"parts": [{"text": "Snake"}, {"text": "case."}]},
        "tools": tools,
        "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["two"]}},
    }
    async with speaking(tmp_path, completion("x")) as (upstream, trial, _), plain_client() as client:
        url = f"{trial.lease.google_base_url}/v1beta/models/g:generateContent"
        assert (await client.post(url, params={"key": trial.lease.key}, json=body)).status_code == 200
    sent = upstream.requests[0]
    assert [each["function"]["name"] for each in sent["tools"]] == ["two"]
    assert sent["messages"][0] == {"role": "system", "content": "Snake\ncase."}


@pytest.mark.case("C4")
async def test_a_cut_answer_says_so_and_its_arguments_never_become_empty_ones(tmp_path: Path) -> None:
    cut = completion("half", calls=[("a", "rm_all", '{"path": ')], finish="length")
    async with speaking(tmp_path, cut) as (_, _, models):
        answer = await models.generate_content(model="g", contents="x")
    assert answer.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS
    assert answer.candidates[0].content.parts[1].function_call.args == {"__unparsed_arguments": '{"path": '}


async def test_what_a_filter_stopped_and_an_answer_without_content_are_answers(tmp_path: Path) -> None:
    async with speaking(tmp_path, completion("", finish="content_filter"), completion(message={})) as (_, _, models):
        stopped = await models.generate_content(model="g", contents="x")
        empty = await models.generate_content(model="g", contents="y")
    assert stopped.candidates[0].finish_reason == types.FinishReason.SAFETY
    assert (empty.text, empty.candidates[0].finish_reason) == ("", types.FinishReason.STOP)
    assert empty.usage_metadata is None, "what the endpoint does not tell is not told"


@pytest.mark.case("C5")
async def test_an_overflow_is_told_in_googles_words(tmp_path: Path) -> None:
    full = failure(400, "too long", code="context_length_exceeded")
    async with speaking(tmp_path, full) as (upstream, trial, models):
        with pytest.raises(errors.ClientError, match="input token count exceeds the maximum") as caught:
            await models.generate_content(model="g", contents="x")
        assert trial.lease.overflowed and trial.lease.failure is None and not trial.lease.ended.is_set()
    assert (caught.value.code, caught.value.status) == (400, "INVALID_ARGUMENT")
    assert len(upstream.requests) == 1


async def test_a_spent_budget_and_a_revoked_key_are_errors_of_this_api(tmp_path: Path) -> None:
    async with speaking(tmp_path, completion("hi"), budget=Budget(requests=1)) as (upstream, trial, models):
        await models.generate_content(model="g", contents="x")
        with pytest.raises(errors.ClientError, match="budget of this run is spent") as spent:
            _ = [each async for each in await models.generate_content_stream(model="g", contents="x")]
        assert trial.lease.stop is AgentStop.MAX_TURNS
        await trial.lease.close()
        with pytest.raises(errors.ClientError, match="no such key") as revoked:
            await models.generate_content(model="g", contents="x")
    assert (spent.value.code, spent.value.status) == (400, "FAILED_PRECONDITION")
    assert (revoked.value.code, revoked.value.status) == (401, "UNAUTHENTICATED")
    assert len(upstream.requests) == 1, "the SDK does not ask again, and a refusal asks nobody"


async def test_a_stream_that_breaks_off_ends_in_an_error(tmp_path: Path) -> None:
    cut = Answer(chunks=[chunk({"content": "ha"})], cut=True)
    async with speaking(tmp_path, cut) as (_, trial, models):
        stream = await models.generate_content_stream(model="g", contents="x")
        with pytest.raises(errors.ServerError, match="cut") as caught:
            assert [each.text async for each in stream] == ["ha"]
        assert trial.lease.trouble is not None
    assert caught.value.status == "UNAVAILABLE"


async def test_tokens_are_counted_and_the_model_is_listed(tmp_path: Path) -> None:
    async with speaking(tmp_path, completion("x")) as (upstream, _, models):
        counted = await models.count_tokens(model="g", contents="x" * 400)
        listed = [each.name async for each in await models.list()]
        got = await models.get(model="m")
    assert 100 <= counted.total_tokens <= 130
    assert (listed, got.name) == (["models/m"], "models/m")
    assert upstream.requests == []


USER = {"role": "user", "parts": [{"text": "x"}]}
BAD = [
    ({}, "contents: a list of objects is required"),
    ({"contents": []}, "at least one of them must say something"),
    ({"contents": ["x"]}, "a list of objects is required"),
    ({"contents": [{"role": "wizard", "parts": [{"text": "x"}]}]}, "unknown role 'wizard'"),
    ({"contents": [{"parts": [{"hologram": {}}]}]}, "parts with hologram cannot be passed on"),
    ({"contents": [{"role": "model", "parts": [{"executableCode": {}}]}]}, "with executableCode cannot"),
    ({"contents": [{"parts": [{"inlineData": {"mimeType": "audio/wav", "data": ""}}]}]}, "parts with audio/wav cannot"),
    ({"contents": [USER], "cachedContent": "c"}, "no contents are stored"),
    ({"contents": [USER], "generationConfig": {"candidateCount": 2}}, "one answer is given at a time"),
]


@pytest.mark.parametrize(("body", "said"), BAD)
async def test_what_is_no_request_is_refused_in_one_line_and_asks_nobody(body: Any, said: str, tmp_path: Path) -> None:
    async with speaking(tmp_path, completion("x")) as (upstream, trial, _), plain_client() as client:
        url = f"{trial.lease.google_base_url}/v1beta/models/g:generateContent"
        answer = await client.post(url, json=body, headers={"x-goog-api-key": trial.lease.key})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["status"], upstream.requests) == (400, 400, "INVALID_ARGUMENT", [])
    assert said in error["message"] and "\n" not in error["message"]


@pytest.mark.parametrize("path", ["models/g:embedContent", "models/g:streamGenerateContent", "models/:generateContent"])
async def test_what_is_not_served_is_not_found(path: str, tmp_path: Path) -> None:
    async with speaking(tmp_path, completion("x")) as (upstream, trial, _), plain_client() as client:
        headers = {"x-goog-api-key": trial.lease.key}
        answer = await client.post(f"{trial.lease.google_base_url}/v1beta/{path}", json={}, headers=headers)
    assert (answer.status_code, answer.json()["error"]["status"], upstream.requests) == (404, "NOT_FOUND", [])
    assert ("?alt=sse" in answer.text) is ("stream" in path)


async def test_an_event_is_whole_json_after_its_mark(tmp_path: Path) -> None:
    """Google's JavaScript client takes nothing else for an event, comments included."""
    async with speaking(tmp_path, STREAMED) as (_, trial, _), plain_client() as client:
        url = f"{trial.lease.google_base_url}/v1beta/models/g:streamGenerateContent"
        headers = {"x-goog-api-key": trial.lease.key}
        answer = await client.post(url, params={"alt": "sse"}, json={"contents": [USER]}, headers=headers)
    *events, last = answer.text.split("\n\n")
    assert last == "" and len(events) == 3
    assert all(json.loads(each.removeprefix("data: "))["candidates"] for each in events)
