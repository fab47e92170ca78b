"""The real SDK against a real endpoint on loopback that answers as providers do on their bad days."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from model_server import Answer, ModelServer, chunk, completion, failure, serving

from harness import errors
from harness.llm.openai_chat import Endpoint, OpenAIChat
from harness.llm.price import Price
from harness.llm.protocol import CallContext, ContextOverflow, Message, Reply, ToolRequest, ToolSchema
from harness.llm.retry import RetryPolicy

ASK = (Message(role="user", content="hi"),)
TOOL = ToolSchema(name="bash", description="run", parameters={"type": "object", "properties": {}})


class Asking:
    """One model over an endpoint, with a clock that only its own waits move."""

    def __init__(self, server: ModelServer, **settings: Any) -> None:
        self.waits: list[float] = []
        self.now = 0.0
        retry = RetryPolicy(max_retries=settings.pop("max_retries", 4))
        endpoint = Endpoint(model="m", base_url=server.url, **{"api_key": "sekret-key-1", "retry": retry, **settings})
        self.model = OpenAIChat(endpoint, clock=lambda: self.now, sleep=self._sleep, chance=lambda: 0.5)

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    async def ask(
        self, messages: Sequence[Message] = ASK, tools: Sequence[ToolSchema] = (TOOL,), time_left: float = 1e6
    ) -> Reply:
        try:
            context = CallContext(task_name="t", turn=0, seed=7, time_left=time_left)
            return await self.model.complete(messages, tools, context)
        finally:
            await self.model.close()


async def reply_to(*answers: Answer, **settings: Any) -> Reply:
    """What the model makes of these answers."""
    async with serving(*answers) as server:
        return await Asking(server, **settings).ask()


async def test_an_answer_arrives_with_its_calls_and_its_cost() -> None:
    answer = completion(
        "ok",
        calls=[("c1", "bash", '{"command": "ls"}')],
        usage={"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 400}},
    )
    reply = await reply_to(answer, price=Price(input=2.0, cached=0.5, output=10.0))
    assert reply.content == "ok"
    assert reply.tool_calls == (ToolRequest(id="c1", name="bash", arguments='{"command": "ls"}'),)
    assert (reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens) == (1000, 400, 100)
    assert reply.cost_usd == pytest.approx((600 * 2.0 + 400 * 0.5 + 100 * 10.0) / 1e6)
    assert (reply.model, reply.finish_reason, reply.retries) == ("m", "tool_calls", 0)


async def test_what_is_sent_is_the_conversation_the_tools_and_the_parameters() -> None:
    history = [
        Message(role="system", content="s"),
        Message(role="assistant", content="", tool_calls=(ToolRequest(id="c", name="bash", arguments="{}"),)),
        Message(role="tool", content="out", tool_call_id="c"),
    ]
    async with serving(completion("ok")) as server:
        parameters = {"temperature": 0.5, "top_k": 20, "chat_template_kwargs": {"thinking": False}}
        await Asking(server, parameters=parameters, send_seed=True).ask(history)
    (sent,) = server.requests
    assert sent["messages"] == [
        {"role": "system", "content": "s"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}],
        },
        {"role": "tool", "content": "out", "tool_call_id": "c"},
    ]
    assert sent["tools"][0]["function"] == {"name": "bash", "description": "run", "parameters": TOOL.parameters}
    assert (sent["temperature"], sent["top_k"], sent["chat_template_kwargs"]) == (0.5, 20, {"thinking": False})
    assert sent["seed"] == 7
    assert server.headers[0]["authorization"] == "Bearer sekret-key-1"


@pytest.mark.case("C6")
@pytest.mark.parametrize("status", [429, 503, 529])
async def test_a_busy_endpoint_is_asked_again_after_waits_that_double(status: int) -> None:
    async with serving(failure(status), failure(status), completion("ok")) as server:
        asking = Asking(server)
        reply = await asking.ask()
    assert (reply.content, reply.retries) == ("ok", 2)
    assert asking.waits == [1.125, 2.25]
    assert asking.waits[0] >= 1 and asking.waits[1] >= 2


@pytest.mark.case("C6")
async def test_the_endpoints_own_wish_to_wait_is_honoured() -> None:
    answers = (
        failure(429, headers={"retry-after": "17"}),
        failure(429, headers={"retry-after-ms": "3500"}),
        completion("ok"),
    )
    async with serving(*answers) as server:
        asking = Asking(server)
        await asking.ask()
    assert asking.waits == [17.125, 3.75]


@pytest.mark.case("C6")
async def test_an_endpoint_that_stays_busy_is_infrastructure_after_a_bounded_number_of_requests() -> None:
    async with serving(failure(429, "slow down")) as server:
        with pytest.raises(errors.ModelRateLimited, match=r"slow down.*after 5 requests"):
            await Asking(server, max_retries=4).ask()
    assert len(server.requests) == 5


@pytest.mark.case("C6")
async def test_no_wait_goes_beyond_the_time_that_the_run_has_left() -> None:
    async with serving(failure(429)) as server:
        asking = Asking(server, max_retries=50)
        with pytest.raises(errors.ModelRateLimited):
            await asking.ask(time_left=10.0)
    assert sum(asking.waits) < 10.0
    async with serving(failure(429, headers={"retry-after": "3600"})) as server:
        with pytest.raises(errors.ModelRateLimited):
            await Asking(server).ask(time_left=600.0)
    assert len(server.requests) == 1


@pytest.mark.case("C6")
async def test_an_empty_account_is_not_asked_again() -> None:
    async with serving(failure(429, "quota", code="insufficient_quota")) as server:
        with pytest.raises(errors.ModelQuotaExhausted):
            await Asking(server).ask()
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [500, 502, 504])
async def test_a_failing_endpoint_is_unavailable_after_the_retries(status: int) -> None:
    async with serving(failure(status)) as server:
        with pytest.raises(errors.ModelUnavailable):
            await Asking(server, max_retries=2).ask()
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, errors.ModelAuthError),
        (403, errors.ModelAuthError),
        (400, errors.ModelRejected),
        (404, errors.ModelRejected),
        (422, errors.ModelRejected),
    ],
)
async def test_what_asking_again_cannot_mend_is_raised_at_once(status: int, kind: type[Exception]) -> None:
    async with serving(failure(status, "because")) as server:
        with pytest.raises(kind, match="because"):
            await Asking(server).ask()
    assert len(server.requests) == 1


async def test_a_key_that_the_endpoint_quotes_back_is_redacted() -> None:
    with pytest.raises(errors.ModelAuthError) as refused:
        await reply_to(failure(401, "bad key sekret-key-1"))
    assert "sekret" not in str(refused.value)
    assert "sekret" not in repr(Endpoint(model="m", api_key="sekret-key-1"))


OVERFLOWS = {
    "openai": failure(400, "too long", code="context_length_exceeded", type="invalid_request_error"),
    "vllm": Answer(
        status=400,
        body={
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    "sglang": Answer(
        status=400,
        body={
            "object": "error",
            "message": "The input (12345 tokens) is longer than the model's context length (8192 tokens).",
            "code": 400,
        },
    ),
    "sglang-pool": failure(400, "Input length (700001 tokens) exceeds the maximum allowed length (536826 tokens)."),
    "llama.cpp": failure(
        400, "the request exceeds the available context size", code=400, type="exceed_context_size_error"
    ),
}


@pytest.mark.case("C5")
@pytest.mark.parametrize("server", OVERFLOWS)
async def test_a_conversation_that_is_too_long_is_told_apart_and_not_sent_again(server: str) -> None:
    async with serving(OVERFLOWS[server]) as endpoint:
        with pytest.raises(ContextOverflow):
            await Asking(endpoint).ask()
    assert len(endpoint.requests) == 1


async def test_words_of_an_error_that_only_mention_a_length_are_no_overflow() -> None:
    with pytest.raises(errors.ModelRejected):
        await reply_to(failure(400, "messages.0: you wrote: this model's maximum context length is 7"))


@pytest.mark.case("C8")
@pytest.mark.parametrize(
    "message",
    [{}, {"content": None, "reasoning_content": "r"}, {"content": ""}, {"content": [{"type": "text", "text": ""}]}],
)
async def test_content_that_is_absent_null_or_empty_is_empty(message: dict[str, Any]) -> None:
    reply = await reply_to(completion(message=message))
    assert reply.content == ""
    assert reply.reasoning == message.get("reasoning_content")
    assert reply.prompt_tokens is None and reply.cost_usd is None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"tool_calls": [None, {"function": None}, 7]}}], "usage": {"prompt_tokens": "many"}},
    ],
)
async def test_an_answer_with_holes_is_an_answer_with_unknowns(body: dict[str, Any]) -> None:
    reply = await reply_to(Answer(body=body))
    assert reply.content == "" and reply.prompt_tokens is None
    assert len({call.id for call in reply.tool_calls}) == len(reply.tool_calls)


@pytest.mark.parametrize("raw", [b"<html>gateway</html>", b"", b"{", b"[1]", b'"text"', b"null"])
async def test_an_answer_that_is_no_completion_is_asked_for_again(raw: bytes) -> None:
    reply = await reply_to(Answer(raw=raw, headers={"content-type": "application/json"}), completion("ok"))
    assert (reply.content, reply.retries) == ("ok", 1)


@pytest.mark.case("C10")
async def test_calls_without_an_id_or_with_a_taken_one_get_ids_of_their_own() -> None:
    reply = await reply_to(completion(calls=[("x", "a", "{}"), ("x", "b", "{}"), ("", "c", "{}")]))
    assert [(call.id, call.name) for call in reply.tool_calls] == [("x", "a"), ("x_1", "b"), ("call_2", "c")]


async def test_lone_surrogates_in_an_answer_do_no_harm() -> None:
    body = b'{"choices":[{"message":{"content":"a\\ud800","tool_calls":[{"function":{"name":"\\udfff"}}]}}]}'
    reply = await reply_to(Answer(raw=body, headers={"content-type": "application/json"}))
    assert (reply.content, reply.tool_calls[0].name) == ("a\ufffd", "\ufffd")


async def test_sampled_tokens_are_asked_for_and_passed_on() -> None:
    answer = completion("ab", prompt_token_ids=[1, 2, 3])
    answer.body["choices"][0] |= {
        "token_ids": [7, 8],
        "logprobs": {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1.25}]},
    }
    async with serving(answer) as server:
        reply = await Asking(server, capture=True).ask()
    assert (server.requests[0]["logprobs"], server.requests[0]["return_token_ids"]) == (True, True)
    assert reply.prompt_token_ids == (1, 2, 3)
    assert (reply.completion_token_ids, reply.logprobs) == ((7, 8), (-0.5, -1.25))


async def test_a_stream_is_put_together() -> None:
    chunks = [
        chunk({"role": "assistant", "content": "He"}, prompt_token_ids=[1]),
        chunk({"content": "llo", "reasoning_content": "hm"}),
        chunk({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "bash", "arguments": ""}}]}),
        chunk({"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "ls", "arguments": "{}"}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"command": '}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"ls"}'}}]}),
        chunk({}, finish="tool_calls"),
        chunk(usage={"prompt_tokens": 5, "completion_tokens": 2}),
    ]
    chunks[1]["choices"][0] |= {"token_ids": [7], "logprobs": {"content": [{"logprob": -1}]}}
    async with serving(Answer(chunks=chunks)) as server:
        reply = await Asking(server, stream=True).ask()
    assert server.requests[0]["stream_options"] == {"include_usage": True}
    assert (reply.content, reply.reasoning, reply.finish_reason) == ("Hello", "hm", "tool_calls")
    assert [(call.id, call.name, json.loads(call.arguments)) for call in reply.tool_calls] == [
        ("c1", "bash", {"command": "ls"}),
        ("c2", "ls", {}),
    ]
    assert (reply.prompt_tokens, reply.completion_tokens) == (5, 2)
    assert (reply.prompt_token_ids, reply.completion_token_ids, reply.logprobs) == ((1,), (7,), (-1.0,))


HALF_A_CALL = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "bash", "arguments": '{"a":1'}}]}


@pytest.mark.case("C4")
@pytest.mark.parametrize("finish", ["length", "tool_calls"])
async def test_a_stream_says_whether_the_token_limit_cut_it(finish: str) -> None:
    reply = await reply_to(Answer(chunks=[chunk(HALF_A_CALL), chunk({}, finish=finish)]), stream=True)
    assert reply.truncated == (finish == "length")
    assert reply.tool_calls[0].arguments == '{"a":1'


@pytest.mark.case("C4")
@pytest.mark.parametrize("cut", [True, False], ids=["connection-broken", "no-terminal-chunk"])
async def test_a_cut_stream_is_no_answer_and_is_asked_for_again(cut: bool) -> None:
    half = Answer(chunks=[chunk(HALF_A_CALL)], cut=cut)
    whole = Answer(chunks=[chunk({"content": "ok"}), chunk({}, finish="stop")])
    reply = await reply_to(half, whole, stream=True)
    assert (reply.content, reply.tool_calls, reply.retries) == ("ok", (), 1)
    with pytest.raises(errors.ModelUnavailable, match=r"stream was cut|connection failed"):
        await reply_to(half, stream=True, max_retries=2)


@pytest.mark.case("C4")
async def test_a_stream_with_garbage_in_it_is_cut() -> None:
    with pytest.raises(errors.ModelUnavailable):
        await reply_to(Answer(chunks=[chunk({"content": "x"}), "{not json"]), stream=True, max_retries=0)


@pytest.mark.case("C5")
async def test_an_error_inside_a_stream_means_what_its_code_says() -> None:
    overflow = {"error": {"message": "too long", "code": "context_length_exceeded"}}
    with pytest.raises(ContextOverflow):
        await reply_to(Answer(chunks=[overflow]), stream=True)
    with pytest.raises(errors.ModelUnavailable):
        await reply_to(Answer(chunks=[{"error": {"message": "engine died"}}]), stream=True, max_retries=0)


async def test_a_body_that_breaks_off_is_asked_for_again() -> None:
    broken = Answer(raw=b'{"choices": [', cut=True, headers={"content-type": "application/json"})
    assert (await reply_to(broken, completion("ok"))).retries == 1


async def test_an_endpoint_that_never_answers_is_a_timeout() -> None:
    with pytest.raises(errors.ModelTimeout, match=r"no answer within 0\.2 s"):
        await reply_to(Answer(silent=True), request_timeout_sec=0.2, max_retries=0)


async def test_nobody_listening_is_an_unavailable_endpoint() -> None:
    async with serving(completion("ok")) as server:
        url = server.url
    with pytest.raises(errors.ModelUnavailable, match="after 3 requests"):
        await Asking(ModelServer([], url=url), max_retries=2).ask()


async def test_a_cancelled_request_ends_at_once() -> None:
    async with serving(Answer(silent=True)) as server:
        asking = Asking(server)
        task = asyncio.create_task(asking.ask())
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.case("D7")
def test_one_model_serves_two_event_loops_one_after_the_other() -> None:
    models: list[OpenAIChat] = []

    async def once() -> str:
        async with serving(completion("ok")) as server:
            models[:] = models or [OpenAIChat(Endpoint(model="m", base_url=server.url))]
            models[0]._endpoint = Endpoint(model="m", base_url=server.url)  # the port differs, the model is the same
            reply = await models[0].complete(ASK, (), CallContext(task_name="t", turn=0, seed=0, time_left=60.0))
            await models[0].close()
        return reply.content

    assert [asyncio.run(once()), asyncio.run(once())] == ["ok", "ok"]
