"""What the model sampled is on record beside the trajectory, in the words of three servers."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest
from agent_runs import Ran, play
from model_server import chunk, completion, serving
from policy_server import Policy

from harness.agents.tool_calling.config import LoopConfig
from harness.agents.tool_calling.loop import ToolCallingAgent
from harness.export.tokens import branch
from harness.llm import wire
from harness.llm.openai_chat import Endpoint, OpenAIChat
from harness.store.rollout import RolloutReader, SampledCall

WORK = (
    ("I look around.", [("c1", "bash", '{"command":"echo hi"}')]),
    ("Ünïcode ✓", [("c2", "bash", '{"command":"echo ho"}')]),
    ("", [("c3", "finish", "{}")]),
)


async def run_with(policy: Policy, folder: Path, **settings: Any) -> Ran:
    async with serving(policy) as server:
        parameters = {"temperature": 0.7, "top_p": 1.0}
        endpoint = Endpoint(model="m", base_url=server.url, parameters=parameters, capture=True, **settings)
        agent = ToolCallingAgent(LoopConfig(), OpenAIChat(endpoint))
        try:
            return await play(agent, folder)
        finally:
            await agent.close()


def calls_in(folder: Path) -> list[SampledCall]:
    return list(RolloutReader(folder / "agent" / "rollout.bin"))


@pytest.mark.parametrize(("dialect", "mode"), [("vllm", "raw"), ("sglang", "processed")])
async def test_every_call_is_stored_as_it_was_sampled(tmp_path: Path, dialect: str, mode: str) -> None:
    policy = Policy(WORK, dialect)
    ran = await run_with(policy, tmp_path)
    calls = calls_in(tmp_path)
    assert [(list(call.prompt_ids or ()), list(call.completion_ids or ())) for call in calls] == [
        (prompt, ids) for prompt, ids, _ in policy.sampled
    ]
    assert [call.logprobs for call in calls] == [array("f", logprobs) for *_, logprobs in policy.sampled]
    first = calls[0]
    assert (first.finish_reason, first.policy_version, first.engine, first.model) == (
        *("tool_calls", "step-7", dialect, "m"),
    )
    assert first.sampling == {"temperature": 0.7, "top_p": 1.0, "logprobs_mode": mode}
    assert first.started_at is not None and first.duration_sec is not None
    agent_steps = [step for step in ran.trajectory.steps if step.source == "agent"]
    assert [call.step_id for call in calls] == [step.step_id for step in agent_steps]


async def test_the_trajectory_has_small_answers_and_points_to_the_prompts(tmp_path: Path) -> None:
    policy = Policy((("x" * 2000, ()), *WORK))
    ran = await run_with(policy, tmp_path)
    large, small = [step.metrics for step in ran.trajectory.steps if step.source == "agent"][:2]
    assert large is not None and small is not None
    assert (large.completion_token_ids, large.logprobs) == (None, None)
    assert (small.completion_token_ids, small.logprobs) == policy.sampled[1][1:]
    assert large.prompt_token_ids is small.prompt_token_ids is None
    assert large.extra is not None and large.extra["rollout"] == {"file": "rollout.bin", "call_id": "main/3"}


async def test_a_server_that_hides_the_prompt_still_tells_what_it_sampled(tmp_path: Path) -> None:
    policy = Policy(WORK, "llama.cpp")
    await run_with(policy, tmp_path)
    call = calls_in(tmp_path)[0]
    assert (call.prompt_ids, call.engine) == (None, "llama.cpp")
    assert call.completion_ids == array("i", policy.sampled[0][1])


async def test_a_server_that_tells_no_tokens_leaves_no_file(tmp_path: Path) -> None:
    await run_with(Policy(WORK, "text"), tmp_path)
    assert not (tmp_path / "agent" / "rollout.bin").exists()


async def test_sub_agents_sample_into_sessions_of_their_own(tmp_path: Path) -> None:
    work = [
        ("", [("c1", "task", '{"description":"look","prompt":"Look around."}')]),
        ("There is nothing.", ()),
        ("", [("c2", "finish", "{}")]),
    ]
    ran = await run_with(Policy(work), tmp_path)
    (sub,) = ran.trajectory.subagent_trajectories or ()
    calls = calls_in(tmp_path)
    assert [call.session for call in calls] == ["main", sub.trajectory_id, "main"]
    assert len({call.call_id for call in calls}) == 3
    steps = [each.step_id for each in sub.steps if each.source == "agent"]
    assert [call.step_id for call in calls if call.session != "main"] == steps
    found = branch(calls)
    assert (found.counts["extended"], found.counts["fork:session"]) == (1, 1)


async def test_the_mode_that_the_user_states_wins(tmp_path: Path) -> None:
    await run_with(Policy(WORK), tmp_path, logprobs_mode="processed")
    assert calls_in(tmp_path)[0].sampling["logprobs_mode"] == "processed"


def test_weights_that_changed_within_an_answer_are_told_by_runs() -> None:
    body = completion("ab", policy_version_runs=[["3", 1], ["4", 1]], policy_version="3").body
    body["choices"][0]["token_ids"] = [7, 8]
    reply = wire.reply_from(body, None)
    assert (reply.policy_version, reply.version_runs) == ("3", (("3", 1), ("4", 1)))


def test_sglangs_default_is_no_version() -> None:
    assert wire.reply_from(completion("a", metadata={"weight_version": "default"}).body, None).policy_version is None


def test_ids_spelled_as_tokens_are_ids() -> None:
    body = completion("ab").body
    body["choices"][0]["logprobs"] = {"content": [{"token": "token_id:7", "logprob": -1.0}]}
    reply = wire.reply_from(body, None)
    assert (reply.completion_token_ids, reply.logprobs) == ((7,), (-1.0,))


@pytest.mark.case("E9")
def test_a_missing_logprob_is_not_a_number_and_never_zero() -> None:
    body = completion("ab").body
    content = [{"logprob": -1.0}, {"logprob": None}]
    body["choices"][0] |= {"token_ids": [7, 8], "logprobs": {"content": content}}
    logprobs = wire.reply_from(body, None).logprobs
    assert logprobs is not None and logprobs[0] == -1.0 and logprobs[1] != logprobs[1]


@pytest.mark.parametrize("ids", [[-1], [1 << 31], ["7"], [True], [1.0], "77", {"a": 1}])
def test_what_is_no_token_id_is_unknown(ids: Any) -> None:
    body = completion("a", prompt_token_ids=ids).body
    body["choices"][0]["token_ids"] = ids
    reply = wire.reply_from(body, None)
    assert (reply.prompt_token_ids, reply.completion_token_ids) == (None, None)


def test_a_stream_tells_the_version_and_the_ids_of_its_parts() -> None:
    reply = wire.StreamedReply({"x-policy-version": "9"})
    first = chunk({"content": "a"}, prompt_token_ids=[1, 2])
    second = chunk({"content": "b"}, finish="stop")
    for number, each in enumerate((first, second)):
        each["choices"][0] |= {"token_ids": [number], "logprobs": {"content": [{"logprob": -0.5}]}}
        reply.add(each)
    whole = reply.reply(None)
    assert (whole.prompt_token_ids, whole.completion_token_ids, whole.policy_version) == ((1, 2), (0, 1), "9")
