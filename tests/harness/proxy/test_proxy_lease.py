"""Who may ask, how much, and what ends it: keys, hosts, budgets, and the endpoint's failures."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from model_server import Answer, chunk, completion, failure, serving
from proxied import UPSTREAM_KEY, endpoint, plain_client, proxied, trial

from harness import errors
from harness.errors import UsageError
from harness.failures import AgentStop
from harness.llm.price import Price
from harness.proxy import Budget, ModelProxy

CHAT = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
ASKED = {
    "chat/completions": CHAT,
    "responses": {"model": "m", "input": "x"},
    "messages": {"model": "m", "max_tokens": 9, "messages": CHAT["messages"]},
}
HI = completion("hi", usage={"prompt_tokens": 60, "completion_tokens": 40})
FINAL = {"chat/completions": 401, "responses": 400, "messages": 400}
"""The statuses that agents of each dialect take for final."""


async def ask(base: str, path: str = "chat/completions", *, key: str = "", **headers: str) -> httpx.Response:
    """One request as a plain client sends it."""
    async with plain_client() as client:
        headers = {**({"authorization": f"Bearer {key}"} if key else {}), **headers}
        return await client.post(f"{base}/{path}", json=ASKED.get(path, CHAT), headers=headers)


@pytest.mark.parametrize("path", ASKED)
async def test_without_a_live_key_nothing_is_touched_and_the_dialect_says_401(path: str, tmp_path: Path) -> None:
    async with serving(HI) as upstream, ModelProxy(endpoint(upstream.url)) as proxy:
        mine, other = trial(proxy, tmp_path / "a"), trial(proxy, tmp_path / "b")
        base = mine.lease.openai_base_url
        answers = [
            await ask(base, path),
            await ask(base, path, key="sk-harness-guess"),
            await ask(base, path, key=other.lease.key),
            await ask(base.replace(mine.lease.name, "nobody"), path, key=mine.lease.key),
        ]
        await mine.lease.close()
        answers.append(await ask(base, path, key=mine.lease.key))
        await other.close()
    assert [each.status_code for each in answers] == [401] * 5
    kind = "authentication_error" if path == "messages" else "invalid_request_error"
    assert {each.json()["error"]["type"] for each in answers} == {kind}
    assert upstream.requests == [] and not mine.trajectory.path.exists()


@pytest.mark.case("H7")
async def test_another_host_name_is_refused_and_only_named_addresses_are_listened_on(tmp_path: Path) -> None:
    async with serving(HI) as upstream, proxied(endpoint(upstream.url), tmp_path) as made:
        answer = await ask(made.lease.openai_base_url, key=made.lease.key, host="evil.test")
    assert (answer.status_code, upstream.requests) == (403, [])
    assert "access-control-allow-origin" not in answer.headers
    for host in ("0.0.0.0", "::", "my.host"):
        with pytest.raises(UsageError, match="address"):
            async with ModelProxy(endpoint(upstream.url), host=host):
                pass


async def test_a_name_that_was_allowed_is_one(tmp_path: Path) -> None:
    async with serving(HI) as up, proxied(endpoint(up.url), tmp_path, allowed_hosts=["host.docker.internal"]) as made:
        answer = await ask(made.lease.openai_base_url, key=made.lease.key, host="host.docker.internal:99")
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize(
    ("budget", "stop", "answered"),
    [
        (Budget(requests=2), AgentStop.MAX_TURNS, 2),
        (Budget(tokens=250), AgentStop.TOKEN_BUDGET, 3),
        (Budget(cost_usd=0.00015), AgentStop.COST_BUDGET, 2),
        (Budget(seconds=0), AgentStop.TIMEOUT, 0),
    ],
)
async def test_a_spent_budget_ends_the_agent_for_good(
    path: str, budget: Budget, stop: AgentStop, answered: int, tmp_path: Path
) -> None:
    price = Price(input=1.0, output=1.0)
    async with serving(HI) as upstream, proxied(endpoint(upstream.url, price=price), tmp_path, budget=budget) as made:
        answers = [await ask(made.lease.openai_base_url, path, key=made.lease.key) for _ in range(6)]
        assert made.lease.ended.is_set() and made.lease.stop is stop
        made.lease.raise_failure()
    assert [each.status_code for each in answers] == [200] * answered + [FINAL[path]] * (6 - answered)
    assert len(upstream.requests) == answered, "a refusal asks nobody"
    assert all(each.headers["x-should-retry"] == "false" for each in answers[answered:])
    assert "budget" in answers[-1].json()["error"]["message"]


async def test_the_sdks_do_not_ask_again_after_a_budget(tmp_path: Path) -> None:
    async with serving(HI) as up, proxied(endpoint(up.url), tmp_path, budget=Budget(requests=1)) as made:
        lease = made.lease
        async with openai.AsyncOpenAI(base_url=lease.openai_base_url, api_key=lease.key) as gpt:
            await gpt.responses.create(model="m", input="x")
            with pytest.raises(openai.AuthenticationError):
                await gpt.chat.completions.create(**CHAT)  # type: ignore[call-overload]
            with pytest.raises(openai.BadRequestError):
                await gpt.responses.create(model="m", input="x")
        async with anthropic.AsyncAnthropic(base_url=lease.anthropic_base_url, auth_token=lease.key) as claude:
            with pytest.raises(anthropic.BadRequestError):
                await claude.messages.create(max_tokens=9, **CHAT)  # type: ignore[call-overload]
    assert len(up.requests) == 1


async def test_requests_side_by_side_cannot_overdraw_their_number(tmp_path: Path) -> None:
    async with serving(HI) as upstream, proxied(endpoint(upstream.url), tmp_path, budget=Budget(requests=3)) as made:
        base, key = made.lease.openai_base_url, made.lease.key
        answers = await asyncio.gather(*(ask(base, key=key) for _ in range(8)))
    assert sorted(each.status_code for each in answers) == [200] * 3 + [401] * 5


@pytest.mark.case("C6")
async def test_trouble_that_passes_is_waited_out_and_the_agent_never_sees_it(tmp_path: Path) -> None:
    trouble = [failure(429, headers={"retry-after": "0"}), failure(503), HI]
    async with serving(*trouble) as upstream, proxied(endpoint(upstream.url), tmp_path) as made:
        answer = await ask(made.lease.openai_base_url, key=made.lease.key)
        step = (await made.end()).steps[-1]
    assert answer.status_code == 200 and len(upstream.requests) == 3
    assert step.metrics and step.metrics.extra and step.metrics.extra["retries"] == 2


@pytest.mark.case("C6")
@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize(
    ("trouble", "error", "asked"),
    [
        (failure(500, f"no, {UPSTREAM_KEY}"), errors.ModelUnavailable, 3),
        (failure(429), errors.ModelRateLimited, 3),
        (failure(429, code="insufficient_quota"), errors.ModelQuotaExhausted, 1),
        (failure(401), errors.ModelAuthError, 1),
        (Answer(raw=b"<html>"), errors.ModelUnavailable, 3),
    ],
)
async def test_an_endpoint_that_fails_for_good_ends_the_agent_and_is_not_its_failure(
    path: str, trouble: Answer, error: type[Exception], asked: int, tmp_path: Path
) -> None:
    async with serving(trouble) as upstream, proxied(endpoint(upstream.url), tmp_path) as made:
        answers = [await ask(made.lease.openai_base_url, path, key=made.lease.key) for _ in range(3)]
        assert made.lease.stop is None and made.lease.ended.is_set()
        with pytest.raises(error):
            made.lease.raise_failure()
        text = (await made.end()).model_dump_json()
    assert [each.status_code for each in answers] == [FINAL[path]] * 3
    assert len(upstream.requests) == asked
    assert "model_failed" in text
    assert UPSTREAM_KEY not in text + "".join(each.text for each in answers)


async def test_a_request_that_the_endpoint_rejects_is_told_to_the_agent_who_may_go_on(tmp_path: Path) -> None:
    async with (
        serving(failure(422, "no such field"), HI) as upstream,
        proxied(endpoint(upstream.url), tmp_path) as made,
    ):
        base, key = made.lease.openai_base_url, made.lease.key
        answers = [await ask(base, key=key), await ask(base, key=key)]
        assert made.lease.trouble is None and not made.lease.ended.is_set()
    assert [each.status_code for each in answers] == [400, 200]
    assert "no such field" in answers[0].json()["error"]["message"]


async def test_a_stream_that_breaks_off_is_told_within_it_and_kept_as_evidence(tmp_path: Path) -> None:
    broken = Answer(chunks=[chunk({"content": "half"})], cut=True)
    async with serving(broken) as upstream, proxied(endpoint(upstream.url), tmp_path) as made:
        async with openai.AsyncOpenAI(base_url=made.lease.openai_base_url, api_key=made.lease.key) as gpt:
            stream = await gpt.chat.completions.create(stream=True, **CHAT)  # type: ignore[call-overload]
            with pytest.raises(openai.APIError, match="cut"):
                async for _ in stream:
                    pass
        assert isinstance(made.lease.trouble, errors.ModelUnavailable) and made.lease.answers == 0
    assert len(upstream.requests) == 1, "an answer that has begun is not asked for again"


async def test_a_client_that_goes_away_takes_its_request_with_it(tmp_path: Path) -> None:
    async with serving(Answer(silent=True), HI) as upstream, proxied(endpoint(upstream.url), tmp_path) as made:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await ask(made.lease.openai_base_url, key=made.lease.key)
        async with asyncio.timeout(5):
            while made.lease.in_flight:
                await asyncio.sleep(0.01)
        assert made.lease.failure is None
        assert (await ask(made.lease.openai_base_url, key=made.lease.key)).status_code == 200
    assert made.lease.answers == 1 and len(upstream.requests) == 2


async def test_closing_a_lease_ends_what_is_in_flight(tmp_path: Path) -> None:
    async with serving(Answer(silent=True)) as upstream, proxied(endpoint(upstream.url), tmp_path) as made:
        asking = asyncio.create_task(ask(made.lease.openai_base_url, key=made.lease.key))
        while not upstream.requests:
            await asyncio.sleep(0.01)
        await made.lease.close()
        assert (await asking).status_code == 401


async def test_many_in_flight_are_answered_to_the_right_caller(tmp_path: Path) -> None:
    def echo(request: dict[str, Any]) -> Answer:
        return completion(request["messages"][-1]["content"] + "!")

    async def one(client: httpx.AsyncClient, text: str) -> str:
        body = {"messages": [{"role": "user", "content": text}]}
        answer = await client.post(f"{base}/chat/completions", json=body, headers={"authorization": f"Bearer {key}"})
        return str(answer.json()["choices"][0]["message"]["content"])

    async with serving(echo) as upstream, proxied(endpoint(upstream.url), tmp_path) as made:
        base, key = made.lease.openai_base_url, made.lease.key
        async with plain_client() as client:
            answers = await asyncio.gather(*(one(client, f"q{n}") for n in range(40)))
        document = await made.end()
    assert answers == [f"q{n}!" for n in range(40)]
    assert len(document.subagent_trajectories or ()) == 39


async def test_the_agents_own_key_is_never_on_record(tmp_path: Path) -> None:
    async with serving(HI) as upstream, proxied(endpoint(upstream.url), tmp_path) as made:
        key = made.lease.key
        body = {"messages": [{"role": "user", "content": json.dumps({"OPENAI_API_KEY": key})}]}
        async with plain_client() as client:
            headers = {"x-api-key": key}
            await client.post(f"{made.lease.openai_base_url}/chat/completions", json=body, headers=headers)
        text = (await made.end()).model_dump_json()
    assert key not in text and "[redacted]" in text


async def test_small_questions_of_clients_have_answers(tmp_path: Path) -> None:
    async with serving(HI) as up, proxied(endpoint(up.url), tmp_path) as made, plain_client() as client:
        base, headers = made.lease.openai_base_url, {"x-api-key": made.lease.key}
        models = await client.get(f"{base}/models", headers=headers)
        count = await client.post(f"{base}/messages/count_tokens", json=ASKED["messages"], headers=headers)
        upgrade = await client.get(f"{base}/responses", headers={**headers, "upgrade": "websocket"})
        nothing = await client.get(f"{base}/hello", headers=headers)
    assert models.json()["data"][0]["id"] == "m"
    assert count.json()["input_tokens"] > 10
    assert (upgrade.status_code, nothing.status_code) == (426, 404)


async def test_a_trial_stays_at_its_server_and_moves_only_while_that_one_is_sick(tmp_path: Path) -> None:
    async with serving(HI) as first, serving(HI) as second:
        async with ModelProxy([(endpoint(first.url), 1.0), (endpoint(second.url), 1.0)]) as proxy:
            trials = [trial(proxy, tmp_path / str(n)) for n in range(12)]
            for each in trials * 2:
                assert (await ask(each.lease.openai_base_url, key=each.lease.key)).status_code == 200
            counts = len(first.requests), len(second.requests)
            assert all(counts) and all(count % 2 == 0 for count in counts) and sum(counts) == 24
            first.answers[:] = [failure(500)]
            for each in trials:
                assert (await ask(each.lease.openai_base_url, key=each.lease.key)).status_code == 200
            assert len(second.requests) == counts[1] + 12
            assert len(first.requests) == counts[0] + 1, "one request found it sick; the others were spared"
            for each in trials:
                await each.close()


def test_servers_are_chosen_by_their_weights() -> None:
    from harness.proxy.upstream.servers import Server, order

    servers = [Server(endpoint("http://a"), 3.0), Server(endpoint("http://b"), 1.0)]
    heavy = sum(order(servers, f"trial-{n}")[0] is servers[0] for n in range(2000))
    assert 1400 < heavy < 1600
