"""What the proxy puts on record: conversations as trajectories, sampled tokens once, and answers on tape."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import Answer, call, chunk, completion, serving
from policy_server import Policy
from proxied import Trial, endpoint, plain_client, proxied

from harness.atif.writer import TrajectoryWriter
from harness.errors import UsageError
from harness.llm.protocol import Reply, ToolRequest
from harness.llm.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from harness.proxy.conversation import said_by
from harness.proxy.recorder import Recorder
from harness.store.rollout import RolloutWriter

Json = dict[str, Any]


async def post(client: httpx.AsyncClient, trial: Trial, body: Json, path: str = "chat/completions") -> httpx.Response:
    """One request under the trial's key."""
    url = f"{trial.lease.openai_base_url}/{path}"
    return await client.post(url, json=body, headers={"x-api-key": trial.lease.key, "user-agent": "cli/1"})


def said(answer: httpx.Response) -> Json:
    """The message in a chat completion."""
    return dict(answer.json()["choices"][0]["message"])


async def episode(client: httpx.AsyncClient, trial: Trial, task: str, turns: int, **more: Any) -> list[Json]:
    """An agent's loop: ask, run the calls, show their results."""
    history: list[Json] = [{"role": "system", "content": "Be an agent."}, {"role": "user", "content": task}]
    for turn in range(turns):
        message = said(await post(client, trial, {"messages": history, **more}))
        history.append(message)
        for each in message.get("tool_calls") or ():
            history.append({"role": "tool", "tool_call_id": each["id"], "content": f"result {turn}"})
    return history


WORK: list[tuple[str, list[tuple[str, str, str]]]] = [
    ("One.", [("c1", "bash", '{"command": "ls"}')]),
    ("Two.", [("c2", "bash", '{"command":  "pwd"}'), ("c3", "bash", "{}")]),
    ("Done.", []),
]


async def test_an_episode_becomes_one_trajectory_step_by_step(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "bash", "description": "", "parameters": {}}}]
    async with serving(Policy(WORK)) as up, proxied(endpoint(up.url), tmp_path) as trial, plain_client() as client:
        await episode(client, trial, "Do it.", 3, tools=tools, temperature=0.7)
        document = await trial.end()
    assert [(step.source, step.message) for step in document.steps] == [
        ("system", "Be an agent."),
        ("user", "Do it."),
        ("agent", "One."),
        ("agent", "Two."),
        ("agent", "Done."),
    ]
    assert document.agent.tool_definitions == tools
    results = [step.observation.results for step in document.steps if step.observation]
    assert [[(each.source_call_id, each.content) for each in step] for step in results] == [
        [("c1", "result 0")],
        [("c2", "result 1"), ("c3", "result 1")],
    ]
    metrics = document.steps[2].metrics
    assert metrics and metrics.extra and metrics.extra["sampling"] == {"temperature": 0.7}
    assert document.subagent_trajectories is None


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
@pytest.mark.parametrize("stream", [False, True])
async def test_every_sampled_token_is_stored_once_and_the_client_sees_none(
    dialect: str, stream: bool, tmp_path: Path
) -> None:
    policy = Policy(WORK, dialect=dialect)

    def answer(request: Json) -> Answer:
        from harness.llm.wire import chunks_of

        whole = policy(request)
        return Answer(chunks=chunks_of(whole.body), headers=whole.headers) if request.get("stream") else whole

    async with serving(answer) as up, proxied(endpoint(up.url, capture=True), tmp_path) as trial:
        async with plain_client() as client:
            history: list[Json] = [{"role": "user", "content": "Do it."}]
            seen = ""
            for _ in range(3):
                response = await post(client, trial, {"messages": history, "stream": stream})
                seen += response.text
                text, calls = WORK[len(policy.sampled) - 1]
                message: Json = {"role": "assistant", "content": text}
                if calls:
                    message["tool_calls"] = [
                        {"id": each[0], "type": "function", "function": {"name": each[1], "arguments": each[2]}}
                        for each in calls
                    ]
                history += [message, *({"role": "tool", "tool_call_id": each[0], "content": "r"} for each in calls)]
        await trial.end()
    calls_on_record = trial.calls()
    assert [(list(each.prompt_ids or ()), list(each.completion_ids or ())) for each in calls_on_record] == [
        (prompt, ids) for prompt, ids, _ in policy.sampled
    ]
    assert [list(each.logprobs or ()) for each in calls_on_record] == [logprobs for _, _, logprobs in policy.sampled]
    assert {each.policy_version for each in calls_on_record} == {"step-7"}
    assert all(word not in seen for word in ("token_ids", "logprob", "meta_info"))


async def test_a_client_that_asks_for_log_probabilities_gets_them(tmp_path: Path) -> None:
    async with serving(Policy(WORK)) as up, proxied(endpoint(up.url, capture=True), tmp_path) as trial:
        async with plain_client() as client:
            body = {"messages": [{"role": "user", "content": "x"}], "logprobs": True, "return_token_ids": True}
            answer = (await post(client, trial, body)).json()
    assert answer["choices"][0]["token_ids"] and answer["choices"][0]["logprobs"]["content"]
    assert answer["prompt_token_ids"]


async def test_arguments_that_a_client_spells_anew_go_upstream_as_they_were_sampled(tmp_path: Path) -> None:
    async with serving(Policy(WORK)) as up, proxied(endpoint(up.url), tmp_path) as trial, plain_client() as client:
        history: list[Json] = [{"role": "user", "content": "x"}]
        message = said(await post(client, trial, {"messages": history}))
        message["tool_calls"][0]["function"]["arguments"] = '{"command":"ls"}'
        history += [message, {"role": "tool", "tool_call_id": "c1", "content": "r"}]
        await post(client, trial, {"messages": history})
        changed = json.loads(json.dumps(history))
        changed[1]["tool_calls"][0]["function"]["arguments"] = '{"command":"rm"}'
        await post(client, trial, {"messages": changed})
    sent = [each["messages"][1]["tool_calls"][0]["function"]["arguments"] for each in up.requests[1:]]
    assert sent == ['{"command": "ls"}', '{"command":"rm"}']


async def test_one_conversation_in_anthropics_words_stays_one_with_moving_cache_marks(tmp_path: Path) -> None:
    script = ScriptedModel(
        Script(replies=tuple(ScriptedReply(text=f" t{n} ", calls=(ScriptedCall(name="Bash"),)) for n in range(4)))
    )
    async with proxied(script, tmp_path) as trial, plain_client() as client:
        history: list[Json] = [{"role": "user", "content": "Do it."}]
        for _ in range(4):
            marked = json.loads(json.dumps(history))
            marked[-1]["content"] = _marked(marked[-1]["content"])
            answer = (await post(client, trial, {"messages": marked, "max_tokens": 9}, "messages")).json()
            call_id = answer["content"][-1]["id"]
            results = [{"type": "tool_result", "tool_use_id": call_id, "content": "ok"}]
            history += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": results}]
        document = await trial.end()
    assert document.subagent_trajectories is None
    assert [step.source for step in document.steps] == ["user", *["agent"] * 4]


def _marked(content: Any) -> list[Json]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks[-1]["cache_control"] = {"type": "ephemeral"}
    return list(blocks)


async def test_a_sub_agent_at_work_in_parallel_has_a_trajectory_that_its_call_refers_to(tmp_path: Path) -> None:
    def answer(request: Json) -> Answer:
        asked = request["messages"]
        if asked[0]["content"] == "Count the files.":
            return completion("42")
        return completion("End.") if len(asked) > 1 else call("task", id="t", prompt="Count the files.", kind="x")

    async with serving(answer) as up, proxied(endpoint(up.url), tmp_path) as trial, plain_client() as client:
        history: list[Json] = [{"role": "user", "content": "Delegate."}]
        history.append(said(await post(client, trial, {"messages": history})))
        counted = said(await post(client, trial, {"messages": [{"role": "user", "content": "Count the files."}]}))
        history.append({"role": "tool", "tool_call_id": "t", "content": counted["content"]})
        await post(client, trial, {"messages": history})
        document = await trial.end()
    (sub,) = document.subagent_trajectories or ()
    assert [step.message for step in sub.steps] == ["Count the files.", "42"]
    assert document.steps[1].observation
    (result,) = document.steps[1].observation.results
    assert result.subagent_trajectory_ref and result.subagent_trajectory_ref[0].trajectory_id == sub.trajectory_id
    assert [step.message for step in document.steps] == ["Delegate.", "", "End."]


@pytest.mark.case("E5")
async def test_a_rewritten_history_is_a_conversation_of_its_own_whose_past_is_not_counted_again(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 1}
    async with serving(completion("a", usage=usage)) as up, proxied(endpoint(up.url), tmp_path) as trial:
        async with plain_client() as client:
            await episode(client, trial, "Do it.", 2)
            compacted = [
                {"role": "system", "content": "Be an agent."},
                {"role": "user", "content": "Summary: much was done."},
                {"role": "assistant", "content": "Got it."},
                {"role": "user", "content": "Go on."},
            ]
            await post(client, trial, {"messages": compacted})
        document = await trial.end()
    (sub,) = document.subagent_trajectories or ()
    assert sub.extra and sub.extra["shared_messages"] == 1
    assert [(step.message, step.is_copied_context) for step in sub.steps if step.source == "agent"] == [
        ("Got it.", True),
        ("a", None),
    ]
    assert sub.final_metrics and sub.final_metrics.total_prompt_tokens == 10


async def test_the_same_question_again_is_another_answer_in_the_same_conversation(tmp_path: Path) -> None:
    async with serving(completion("a"), completion("b")) as up, proxied(endpoint(up.url), tmp_path) as trial:
        async with plain_client() as client:
            for _ in range(2):
                await post(client, trial, {"messages": [{"role": "user", "content": "x"}]})
        document = await trial.end()
    assert [step.message for step in document.steps] == ["x", "a", "b"]
    assert document.steps[2].extra and document.steps[2].extra["asked_again"] is True


async def test_a_program_of_another_name_is_told_from_the_agent(tmp_path: Path) -> None:
    async with serving(completion("a")) as up, proxied(endpoint(up.url), tmp_path) as trial, plain_client() as client:
        await post(client, trial, {"messages": [{"role": "user", "content": "x"}]})
        url, headers = f"{trial.lease.openai_base_url}/chat/completions", {"x-api-key": trial.lease.key}
        body = {"messages": [{"role": "user", "content": "y"}]}
        await client.post(url, json=body, headers={**headers, "user-agent": "curl/8"})
        document = await trial.end()
    (sub,) = document.subagent_trajectories or ()
    assert sub.extra and sub.extra["client"] == "curl/8"


@pytest.mark.case("E3")
async def test_a_result_without_its_call_is_kept_on_a_step_of_its_own(tmp_path: Path) -> None:
    async with serving(completion("a")) as up, proxied(endpoint(up.url), tmp_path) as trial, plain_client() as client:
        body = {"messages": [{"role": "tool", "tool_call_id": "lost", "content": "r"}]}
        await post(client, trial, body)
        document = await trial.end()
    assert document.steps[0].observation and document.steps[0].observation.results[0].content == "r"
    assert (document.steps[0].source, document.steps[0].llm_call_count) == ("agent", 0)


PATHS = st.lists(st.sampled_from("abc"), min_size=0, max_size=4)


@settings(max_examples=30)
@given(st.lists(PATHS, min_size=1, max_size=12))
def test_every_answer_is_on_record_once_whatever_the_conversations(
    tmp_path_factory: pytest.TempPathFactory, asked: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("t")
    trajectory = TrajectoryWriter(
        folder / "trajectory.json", session_id="s", agent_name="a", agent_version="1", model_name=None
    )
    asyncio.run(_record(Recorder(trajectory, RolloutWriter(folder / "rollout.bin")), asked))
    trajectory.close()
    from harness.atif.reader import load_trajectory

    document = load_trajectory(folder / "trajectory.json")
    steps = [step for each in (document, *(document.subagent_trajectories or ())) for step in each.steps]
    numbers = [step.extra["number"] for step in steps if step.extra and "number" in step.extra]
    assert sorted(numbers) == list(range(len(asked)))
    assert trajectory.usage.calls == len(asked)


async def _record(recorder: Recorder, asked: list[list[str]]) -> None:
    for number, path in enumerate(asked):
        messages: list[Json] = [{"role": "user", "content": "task"}]
        for choice in path:
            messages += [
                {"role": "assistant", "content": f"say {choice}"},
                {"role": "user", "content": f"then {choice}"},
            ]
        calls = (ToolRequest(id=f"c{number}", name="f", arguments="{"),) if number % 3 == 0 else ()
        reply = Reply(content=f"say {'abc'[number % 3]}", tool_calls=calls, prompt_tokens=1, completion_tokens=1)
        said = recorder.hear(messages)
        assert said == said_by(messages), "what was heard before is not read again, and makes no difference"
        recorder.answered(said, {"messages": messages}, reply, sampling={}, extra={"number": number}, client="c")
    await recorder.close()


# Tape


@pytest.mark.parametrize("path", ["chat/completions", "responses", "messages"])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_was_recorded_is_replayed_byte_for_byte_and_ends_with_404(
    path: str, stream: bool, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.jsonl"
    pieces = Answer(chunks=[chunk({"reasoning_content": "r"}), chunk({"content": "hé"}), chunk({}, finish="stop")])
    whole = completion("x", message={"role": "assistant", "content": "hé", "reasoning_content": "r", "odd": 1})
    bodies: list[Json] = []
    for text in ("one", "two", "one"):
        shared = {"model": "m", "max_tokens": 9, "stream": stream}
        message = [{"role": "user", "content": text}]
        bodies.append({**shared, "input" if path == "responses" else "messages": message})
    async with plain_client() as client:
        async with serving(pieces if stream else whole) as up:
            async with proxied(endpoint(up.url), tmp_path / "a", record=tape) as trial:
                recorded = [await post(client, trial, body, path) for body in bodies]
        async with proxied(None, tmp_path / "b", replay=tape) as trial:
            parallel = await asyncio.gather(*(post(client, trial, body, path) for body in reversed(bodies)))
            extra = await post(client, trial, bodies[0], path)
            assert trial.lease.answers == 3
    assert [each.content for each in reversed(parallel)] == [each.content for each in recorded]
    assert extra.status_code == 404 and "all recorded answers to this request were given" in extra.text
    assert trial.lease.key not in tape.read_text()


async def test_a_replay_says_where_a_conversation_differs(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    async with plain_client() as client:
        async with serving(completion("a")) as up:
            async with proxied(endpoint(up.url), tmp_path / "a", record=tape) as trial:
                history = await episode(client, trial, "Do it.", 2)
        async with proxied(None, tmp_path / "b", replay=tape) as trial:
            changed = [*history[:2], {"role": "assistant", "content": "b"}]
            answer = await post(client, trial, {"messages": changed})
    assert answer.status_code == 404
    message = answer.json()["error"]["message"]
    assert message == "tape.jsonl: no recorded request has this message 3 (assistant), which differs after line 1"


def test_a_tape_that_is_none_is_refused_in_one_line(tmp_path: Path) -> None:
    from harness.proxy import ModelProxy

    tape = tmp_path / "tape.jsonl"
    with pytest.raises(UsageError, match="cannot read"):
        ModelProxy(replay=tape)
    tape.write_text('{"key": 1}\n')
    with pytest.raises(UsageError, match="line 1: this is no recorded exchange"):
        ModelProxy(replay=tape)
    tape.write_bytes(b"\xff\xfe\n")
    with pytest.raises(UsageError, match="it is not text"):
        ModelProxy(replay=tape)
    with pytest.raises(UsageError, match="is there already"):
        ModelProxy(endpoint("http://x"), record=tape)
    with pytest.raises(UsageError, match="needs an upstream"):
        ModelProxy()
