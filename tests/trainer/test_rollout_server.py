"""The policy server as its clients meet it: over a real socket, read by the harness's own client."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from command_line import command, environment, start
from served_policy import KEY, Asked, Served, checkpoint, serving_policy, tiny

from harness.errors import ModelRateLimited, ModelUnavailable
from harness.llm.openai_chat import Endpoint, OpenAIChat
from harness.llm.protocol import CallContext, ContextOverflow, Message, Reply, ToolSchema
from harness.llm.retry import RetryPolicy
from trainer.policy.huggingface import HuggingFacePolicy
from trainer.rollout.lane import Lane

HELLO = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 12, "temperature": 0}
BASH = ToolSchema(
    name="bash",
    description="Run a command.",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)


@pytest.fixture(scope="module")
def policy() -> HuggingFacePolicy:
    return tiny()


@pytest.fixture
async def served(policy: HuggingFacePolicy) -> AsyncIterator[Served]:
    async with serving_policy(policy) as served:
        yield served


async def post(served: Served, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with aiohttp.ClientSession() as session:
        async with session.post(served.url + path, data=data, headers=headers) as response:
            return response.status, await response.json()


async def ask(served: Served, text: str, *tools: ToolSchema, stream: bool = False, **parameters: Any) -> Reply:
    """Through the harness's own client, which captures."""
    endpoint = Endpoint(
        model="tiny",
        base_url=served.url,
        parameters={"max_tokens": 12, **parameters},
        capture=True,
        stream=stream,
        retry=RetryPolicy(max_retries=0),
    )
    model = OpenAIChat(endpoint)
    try:
        context = CallContext(task_name="t", turn=0, seed=0, time_left=60)
        return await model.complete([Message(role="user", content=text)], tools, context)
    finally:
        await model.close()


@pytest.mark.parametrize("stream", [False, True])
async def test_the_harness_captures_every_token_whole_or_streamed(served: Served, stream: bool) -> None:
    reply = await ask(served, "hi", stream=stream, temperature=0)
    expected = await asyncio.to_thread(
        lambda: Asked(served.engine, reply.prompt_token_ids or (), max_tokens=12, temperature=0).result()
    )
    assert reply.prompt_token_ids == (259, 104, 105, 257, 260)  # <|user|>hi<|end|><|assistant|>
    assert reply.completion_token_ids == tuple(expected.sampled)
    assert reply.logprobs == pytest.approx(expected.logprobs, abs=1e-5)
    assert (reply.finish_reason, reply.policy_version, reply.engine, reply.model) == ("length", "0", "vllm", "tiny")
    assert (reply.prompt_tokens, reply.completion_tokens) == (5, 12)
    assert reply.content == served.model.dialect.decode(list(expected.sampled))


async def test_whole_and_streamed_answers_say_the_same(served: Served) -> None:
    for seed in range(3):
        one, other = [
            await ask(served, "hi", BASH, stream=stream, seed=seed, temperature=1.5, max_tokens=60)
            for stream in (False, True)
        ]
        assert (one.content, one.completion_token_ids, one.finish_reason) == (
            *(other.content, other.completion_token_ids, other.finish_reason),
        )


async def test_completions_take_text_or_tokens_and_tell_the_same(served: Served) -> None:
    answers = [
        await post(served, "/completions", {"prompt": prompt, "temperature": 0})
        for prompt in ("hi", [104, 105], [[104, 105]])
    ]
    choices = [body["choices"][0] for _, body in answers]
    assert all(status == 200 for status, _ in answers)
    assert choices[0]["token_ids"] == choices[1]["token_ids"] == choices[2]["token_ids"]
    assert (choices[0]["prompt_token_ids"], len(choices[0]["token_ids"])) == ([104, 105], 16)
    assert len(choices[0]["logprobs"]["token_logprobs"]) == 16


async def test_a_stop_ends_the_text_before_it_and_the_tokens_after_it(served: Served) -> None:
    free = await ask(served, "hi", temperature=0)
    for stream in (False, True):
        cut = await ask(served, "hi", stream=stream, temperature=0, stop=[free.content[1:3]])
        assert (cut.content, cut.finish_reason) == (free.content[:1], "stop")
        assert cut.completion_token_ids == (free.completion_token_ids or ())[:3]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not JSON"),
        (b"[]", "no JSON object"),
        ({}, "messages: Field required"),
        ({**HELLO, "messages": []}, "messages: "),
        ({**HELLO, "messages": [{"content": "x"}]}, "messages.0.role: Field required"),
        ({**HELLO, "temperature": -1}, "temperature: "),
        ({**HELLO, "n": 2}, "n: "),
        ({**HELLO, "presence_penalty": 0.5}, "presence_penalty: "),
        ({**HELLO, "max_tokens": 0}, "max_tokens: "),
        ({**HELLO, "stop": [""]}, "stop: a stop has at least one character"),
        ({**HELLO, "tool_choice": "required"}, "tool_choice: "),
    ],
)
async def test_a_wrong_request_is_told_in_openais_form(served: Served, body: Any, says: str) -> None:
    status, answer = await post(served, "/chat/completions", body)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert answer["error"]["message"].startswith(says) or says in answer["error"]["message"]


async def test_half_a_surrogate_pair_in_the_history_breaks_nothing(served: Served) -> None:
    body = {**HELLO, "messages": [{"role": "user", "content": "\ud800"}]}
    status, answer = await post(served, "/chat/completions", body)
    assert (status, answer["prompt_token_ids"][1:4]) == (200, list("\ufffd".encode()))


async def test_another_model_and_another_path_are_not_found(served: Served) -> None:
    status, answer = await post(served, "/chat/completions", {**HELLO, "model": "gpt-9"})
    assert (status, answer["error"]["code"]) == (404, "model_not_found")
    assert (await post(served, "/embeddings", {}))[0] == 404


async def test_a_prompt_beyond_the_window_is_an_overflow_to_the_harness(policy: HuggingFacePolicy) -> None:
    async with serving_policy(policy, window=64) as served:
        with pytest.raises(ContextOverflow):
            await ask(served, "x" * 64)
        inside = await ask(served, "x" * 40, max_tokens=None)
        assert len(inside.completion_token_ids or ()) + (inside.prompt_tokens or 0) <= 64


async def test_another_host_name_is_refused(served: Served) -> None:
    status, _ = await post(served, "/chat/completions", HELLO, host="evil.example")
    assert status == 403


async def test_a_full_queue_asks_to_come_again(policy: HuggingFacePolicy) -> None:
    async with serving_policy(policy, max_running=1, max_waiting=0) as served:
        running = Asked(served.engine, [1, 2], max_tokens=4000)
        with pytest.raises(ModelRateLimited, match="at work or waiting"):
            await ask(served, "hi")
        served.engine.abandon(running.generation)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_takes_too_long_is_given_up_and_its_place_is_free(
    policy: HuggingFacePolicy, stream: bool
) -> None:
    async with serving_policy(policy, request_timeout=0.3) as served:
        with pytest.raises(ModelUnavailable, match=r"no answer within 0\.3 s"):
            await ask(served, "hi", stream=stream, max_tokens=4000, ignore_eos=True)
        await until_idle(served)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_leaves_its_place_free(served: Served, stream: bool) -> None:
    task = asyncio.create_task(ask(served, "hi", stream=stream, max_tokens=4000, ignore_eos=True))
    while served.engine.state()["running"] == 0:
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await until_idle(served)
    assert served.engine.state()["tokens_sampled"] < 4000


async def until_idle(served: Served) -> None:
    async with asyncio.timeout(10):
        while served.engine.state()["running"] or served.engine.state()["waiting"]:
            await asyncio.sleep(0.02)


async def test_weights_come_with_the_key_only_and_damaged_ones_change_nothing(served: Served, tmp_path: Path) -> None:
    folder = str(checkpoint(tmp_path / "new", seed=5))
    told = {"path": folder, "version": 7}
    assert (await post(served, "/weights", told))[0] == 401
    assert (await post(served, "/weights", told, authorization="Bearer wrong"))[0] == 401
    authorization = f"Bearer {KEY}"
    for wrong in ({}, {"path": folder}, {**told, "path": str(tmp_path)}):
        status, answer = await post(served, "/weights", wrong, authorization=authorization)
        assert (status, answer["error"]["message"][:9]) == (400, "weights: ")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "model.safetensors").write_bytes(b"\0" * 100)
    torn = {**told, "path": str(tmp_path / "torn")}
    assert (await post(served, "/weights", torn, authorization=authorization))[0] == 400
    before = await ask(served, "hi", temperature=0)
    status, answer = await post(served, "/weights", told, authorization=authorization)
    assert (status, answer["version"]) == (200, "7")
    after = await ask(served, "hi", temperature=0)
    assert (before.policy_version, after.policy_version) == ("0", "7")
    assert before.completion_token_ids != after.completion_token_ids


async def test_new_weights_drop_no_request_and_are_told_token_by_token(
    policy: HuggingFacePolicy, tmp_path: Path
) -> None:
    async with serving_policy(policy, on_update="continue") as served:
        asked = [
            asyncio.create_task(ask(served, text, max_tokens=150, ignore_eos=True, stream=stream))
            for text, stream in (("a", True), ("b", False))
        ]
        while served.engine.state()["running"] < 2:
            await asyncio.sleep(0.01)
        told = {"path": str(checkpoint(tmp_path / "new", seed=5)), "version": "1"}
        assert (await post(served, "/weights", told, authorization=f"Bearer {KEY}"))[0] == 200
        for reply in await asyncio.gather(*asked):
            assert len(reply.completion_token_ids or ()) == 150
            assert reply.version_runs is not None
            assert [version for version, _ in reply.version_runs] == ["0", "1"]
            assert sum(tokens for _, tokens in reply.version_runs) == 150


async def test_models_and_health(served: Served) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{served.url}/models") as response:
            (model,) = (await response.json())["data"]
        async with session.get(f"{served.url.removesuffix('/v1')}/health") as response:
            health = await response.json()
    assert (model["id"], model["max_model_len"]) == ("tiny", 4096)
    assert (health["status"], health["policy_version"], health["running"]) == ("ok", "0", 0)


@pytest.mark.slow
def test_the_command_serves_until_it_is_told_to_end_and_leaves_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start("serve", "tiny", "--port", "0", log=log, env={"HARNESS_SERVE_KEY": KEY})
    try:
        url = first_line(log, process)
        body = json.dumps({**HELLO, "max_tokens": 4000, "ignore_eos": True}).encode()
        with pytest.raises(urllib.error.HTTPError) as refused, ThreadPoolExecutor() as pool:
            asked = pool.submit(urllib.request.urlopen, f"{url}/chat/completions", body, 30)
            while running(url) == 0:
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            asked.result()
        with refused.value as error:
            assert (error.code, json.load(error)["error"]["message"]) == (
                *(503, "the answer could not be sampled: the server is shutting down"),
            )
        assert process.wait(15) == 0
    finally:
        process.kill()
        process.wait()
    said = log.read_text().splitlines()
    assert said[1].startswith("serving tiny: 148,288 parameters, window 4096, policy version 0; ")
    assert len(said) == 2
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


DYING = """
import sys
from harness.cli.main import main
from trainer.rollout.engine import Engine
def fails(self): raise MemoryError("no room")
Engine._drop_abandoned = fails
sys.exit(main(["serve", "tiny", "--port", "0"]))
"""


@pytest.mark.slow
def test_a_server_whose_engine_dies_ends_and_says_so(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-c", DYING], env=environment(), stdout=out, stderr=out)
    try:
        url = first_line(log, process)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}/chat/completions", json.dumps(HELLO).encode(), 30)
        with refused.value as error:
            assert error.code == 503
        assert process.wait(15) == 1
    finally:
        process.kill()
        process.wait()
    assert log.read_text().splitlines()[-1] == "error: the policy server has ended: MemoryError: no room"


async def test_a_request_that_cannot_be_taken_in_fails_alone(
    policy: HuggingFacePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Lane, generation: object) -> bool:
        raise MemoryError("no room")

    async with serving_policy(policy) as served:
        with monkeypatch.context() as patched:
            patched.setattr(Lane, "join", fails)
            status, body = await post(served, "/chat/completions", HELLO)
        assert (status, body["error"]["message"]) == (500, "the answer could not be sampled: MemoryError: no room")
        assert (await post(served, "/chat/completions", HELLO))[0] == 200


def first_line(log: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 60
    while len(log.read_text().splitlines()) < 2:
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return log.read_text().splitlines()[0]


def running(url: str) -> int:
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/health", timeout=10) as response:
        return int(json.load(response)["running"])


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["tiny", "--host", "0.0.0.0"], "loopback only"),
        (["./nowhere"], "there is no such folder"),
        (["tiny", "--on-update", "later"], "on-update"),
    ],
)
@pytest.mark.slow
def test_what_cannot_be_served_is_one_line(argv: list[str], says: str) -> None:
    done = subprocess.run(command("serve", *argv), env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
