"""The tool-calling agent: what it does with whatever a model says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from agent_runs import make_step, play, say, scripted_agent
from folder_sandbox import FolderSandbox
from model_server import call, completion, failure, serving

from backends.errors import SandboxUnavailable
from harness.agents.tool_calling.config import LoopConfig
from harness.agents.tool_calling.loop import ToolCallingAgent
from harness.atif.reader import load_trajectory
from harness.errors import ModelRateLimited
from harness.failures import AgentStop
from harness.llm.openai_chat import Endpoint, OpenAIChat
from harness.llm.retry import RetryPolicy


async def test_a_task_is_worked_on_with_tools_until_finish(tmp_path: Path) -> None:
    agent, model = scripted_agent(
        say("Looking.", ("bash", {"command": "echo hello > a.txt; cat a.txt"}, "c1"), prompt_tokens=10),
        say("", ("read", {"path": "/a.txt"}, "c2"), reasoning="I should check."),
        say("Done.", ("finish", {"summary": "ok"}, "c3")),
    )
    ran = await play(agent, tmp_path)
    assert ran.result.stop is AgentStop.FINISHED
    assert (tmp_path / "box" / "a.txt").read_text() == "hello\n"
    assert [step.source for step in ran.trajectory.steps] == ["system", "user", "agent", "agent", "agent"]
    assert ran.shown("c1") == "hello\n[exit code 0]"
    assert ran.shown("c2") == "hello\n"
    assert ran.facts("c1") | {"duration_sec": 0} == {
        "exit_code": 0,
        "timed_out": False,
        "truncated": False,
        "duration_sec": 0,
        "error": None,
    }
    assert ran.trajectory.steps[3].reasoning_content == "I should check."
    assert ran.trajectory.agent.tool_definitions is not None
    names = [each["function"]["name"] for each in ran.trajectory.agent.tool_definitions]
    assert names == ["bash", "read", "write", "edit", "ls", "grep", "glob", "task", "finish"]
    assert [context.turn for context in model.contexts] == [0, 1, 2]


@pytest.mark.case("C1")
async def test_a_malformed_call_gets_a_result_of_its_own_and_its_siblings_still_run(tmp_path: Path) -> None:
    agent, model = scripted_agent(say("", ("bash", '{"command":"ls"x', "c1"), ("bash", '{"command":"pwd"}', "c2")))
    ran = await play(agent, tmp_path)
    assert "are not JSON, so nothing was executed" in ran.shown("c1")
    assert ran.facts("c1")["error"] == "malformed"
    assert "[exit code 0]" in ran.shown("c2")
    assert len(model.sent) == 2, "the next request was valid"
    calls = ran.trajectory.steps[2].tool_calls
    assert calls is not None and calls[0].extra is not None and calls[0].arguments == {}
    assert calls[0].extra["raw_arguments"] == '{"command":"ls"x'
    assert "parse_error" in calls[0].extra


@pytest.mark.case("C2")
@pytest.mark.parametrize("raw", ["null", "[]", '"x"', "7", "{" * 1_000_000, "NaN", '{"command": NaN}', "[" * 1_000_000])
async def test_arguments_that_are_no_object_give_a_short_error(tmp_path: Path, raw: str) -> None:
    agent, _ = scripted_agent(say("", ("bash", raw, "c1")))
    ran = await play(agent, tmp_path)
    assert ran.facts("c1")["error"] in ("malformed", "truncated")
    assert len(ran.shown("c1").encode()) < 2048
    assert f"({len(raw)} characters)" in ran.shown("c1")
    assert ran.sandbox.calls == []


@pytest.mark.case("C3")
@pytest.mark.parametrize("raw", ['{"path": ', '{"path": "/x', "{", '{"path" "/x"}'])
async def test_a_tool_is_never_run_on_arguments_that_did_not_parse(tmp_path: Path, raw: str) -> None:
    agent, _ = scripted_agent(say("", ("ls", raw, "c1")))  # `ls` would have a default to run with
    ran = await play(agent, tmp_path)
    assert ran.sandbox.calls == []
    assert ran.facts("c1")["error"] in ("malformed", "truncated")


async def test_no_arguments_at_all_are_an_empty_object(tmp_path: Path) -> None:
    agent, _ = scripted_agent(say("", ("ls", "", "c1")))
    ran = await play(agent, tmp_path)
    assert (ran.shown("c1"), ran.facts("c1")["error"]) == ("(nothing)", None)


@pytest.mark.case("C4")
@pytest.mark.parametrize("finish", ["length", "tool_calls"])
async def test_a_truncated_call_is_not_executed_and_its_step_is_labelled(tmp_path: Path, finish: str) -> None:
    agent, _ = scripted_agent(say("", ("bash", '{"command":"touch x"', "c1"), finish_reason=finish))
    ran = await play(agent, tmp_path)
    assert ran.sandbox.calls == []
    assert ran.facts("c1")["error"] == "truncated"
    assert ran.trajectory.steps[2].extra is not None and ran.trajectory.steps[2].extra["truncated"] is True


@pytest.mark.case("C4")
async def test_the_token_limit_wins_over_calls_that_happen_to_parse(tmp_path: Path) -> None:
    agent, model = scripted_agent(say("", ("bash", {"command": "touch x"}, "c1"), finish_reason="length"))
    ran = await play(agent, tmp_path)
    assert ran.sandbox.calls == []
    assert "cut at the token limit" in model.sent[1][-1].content


async def test_a_tool_or_an_argument_that_does_not_exist_is_explained(tmp_path: Path) -> None:
    agent, _ = scripted_agent(
        say(
            "",
            ("rm -rf/\u00e9" * 20, {}, "c1"),
            ("read", {}, "c2"),
            ("read", {"path": "a", "paht": 1}, "c3"),
            ("read", {"path": "a", "offset": "x"}, "c4"),
        )
    )
    ran = await play(agent, tmp_path)
    assert "the tools are bash, read" in ran.shown("c1")
    assert "path: Field required" in ran.shown("c2")
    assert "paht: Extra inputs are not permitted" in ran.shown("c3")
    assert "offset: " in ran.shown("c4")
    assert [ran.facts(each)["error"] for each in ("c1", "c2", "c3", "c4")] == ["unknown_tool"] + ["bad_arguments"] * 3


async def test_so_many_turns_with_nothing_to_run_end_the_run(tmp_path: Path) -> None:
    agent, model = scripted_agent(say("", ("bash", "{", "c1")), on_end="repeat", max_malformed_turns=3)
    ran = await play(agent, tmp_path)
    assert (ran.result.stop, len(model.sent)) == (AgentStop.MALFORMED_CALLS, 3)


async def test_one_good_call_forgives_the_bad_turns_before_it(tmp_path: Path) -> None:
    bad, good = say("", ("bash", "{", "c1")), say("", ("ls", {}, "c1"))
    agent, _ = scripted_agent(bad, good, bad, good, max_malformed_turns=2)
    assert (await play(agent, tmp_path)).result.stop is AgentStop.FINISHED


@pytest.mark.case("C8")
async def test_empty_answers_are_prompted_again_so_many_times(tmp_path: Path) -> None:
    nothing = [say(), say("", reasoning="r"), say(" \n")]
    agent, model = scripted_agent(*nothing, say(), say(), max_empty_answers=5)
    ran = await play(agent, tmp_path)
    assert ran.result.stop is AgentStop.EMPTY_RESPONSES
    assert len(model.sent) == 5
    assert ran.trajectory.steps[3].reasoning_content == "r"
    assert all(step.extra and step.extra["empty"] for step in ran.trajectory.steps[2:])


async def test_a_text_alone_is_reminded_once_and_then_taken_for_the_end(tmp_path: Path) -> None:
    agent, model = scripted_agent(say("All done."), say("Really."))
    ran = await play(agent, tmp_path)
    assert (ran.result.stop, len(model.sent)) == (AgentStop.FINISHED, 2)
    assert "No tool was called" in model.sent[1][-1].content


async def test_a_text_alone_can_be_the_end(tmp_path: Path) -> None:
    agent, model = scripted_agent(say("All done."), text_is_final=True)
    assert (await play(agent, tmp_path)).result.stop is AgentStop.FINISHED
    assert len(model.sent) == 1


@pytest.mark.case("C9")
async def test_the_turns_are_bounded(tmp_path: Path) -> None:
    agent, model = scripted_agent(say("", ("ls", {}, "c1")), on_end="repeat", max_turns=7)
    ran = await play(agent, tmp_path)
    assert (ran.result.stop, len(model.sent)) == (AgentStop.MAX_TURNS, 7)
    assert sum(step.source == "agent" for step in ran.trajectory.steps) == 7


@pytest.mark.case("C9")
async def test_going_round_in_a_circle_can_end_the_run(tmp_path: Path) -> None:
    agent, model = scripted_agent(say("", ("ls", {}, "c1")), on_end="repeat", stuck_after=4)
    ran = await play(agent, tmp_path)
    assert (ran.result.stop, len(model.sent)) == (AgentStop.STUCK, 4)


async def test_the_same_call_with_another_result_is_no_circle(tmp_path: Path) -> None:
    again = say("", ("bash", {"command": "echo x >> log; wc -l < log"}, "c1"))
    agent, _ = scripted_agent(again, again, again, again, stuck_after=2)
    assert (await play(agent, tmp_path)).result.stop is AgentStop.FINISHED


async def test_tokens_and_cost_are_bounded(tmp_path: Path) -> None:
    turn = say("", ("ls", {}, "c1"), prompt_tokens=40, completion_tokens=10)
    agent, model = scripted_agent(turn, on_end="repeat", token_budget=120)
    assert (await play(agent, tmp_path)).result.stop is AgentStop.TOKEN_BUDGET
    assert len(model.sent) == 3


async def test_no_turn_starts_when_no_time_is_left(tmp_path: Path) -> None:
    agent, model = scripted_agent(say("", ("ls", {}, "c1")), on_end="repeat")
    assert (await play(agent, tmp_path, timeout_sec=0.0)).result.stop is AgentStop.TIMEOUT
    assert model.sent == []


@pytest.mark.case("C10")
async def test_parallel_calls_of_one_tool_keep_their_results_apart(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "a").write_text("A")
    agent, model = scripted_agent(say("", ("read", {"path": "a"}, "c1"), ("read", {"path": "b"}, "c2")))
    ran = await play(agent, tmp_path)
    assert (ran.shown("c1"), ran.facts("c1")["error"]) == ("A", None)
    assert (ran.shown("c2"), ran.facts("c2")["error"]) == ("error: no such file or directory: b", "not_found")
    assert [message.tool_call_id for message in model.sent[1][-2:]] == ["c1", "c2"]


class Gate(FolderSandbox):
    """A sandbox in which reads wait until so many of them are under way."""

    width = 3
    inside = 0
    most = 0

    async def read(self, path: str, *, max_bytes: int = 64 << 20) -> bytes:
        self.inside += 1
        self.most = max(self.most, self.inside)
        for _ in range(20):
            await asyncio.sleep(0)
        self.inside -= 1
        return await super().read(path, max_bytes=max_bytes)


@pytest.mark.parametrize(("extra", "width"), [((), 3), ((("write", {"path": "b", "content": ""}),), 1)])
async def test_calls_run_side_by_side_only_if_all_of_them_inspect(tmp_path: Path, extra: Any, width: int) -> None:
    box = Gate(tmp_path)
    (tmp_path / "a").write_text("A")
    agent, _ = scripted_agent(say("", *([("read", {"path": "a"})] * 3), *extra))
    await play(agent, tmp_path, box)
    assert box.most == width


async def test_calls_that_change_things_run_in_their_order(tmp_path: Path) -> None:
    agent, _ = scripted_agent(
        say(
            "",
            ("write", {"path": "/d/f", "content": "one two two"}, "c1"),
            ("edit", {"path": "/d/f", "old": "one", "new": "1"}, "c2"),
            ("edit", {"path": "/d/f", "old": "two", "new": "2"}, "c3"),
            ("edit", {"path": "/d/f", "old": "two", "new": "2", "replace_all": True}, "c4"),
            ("edit", {"path": "/d/f", "old": "three", "new": "3"}, "c5"),
            ("grep", {"pattern": "[0-9]", "path": "/d"}, "c6"),
            ("glob", {"pattern": "**/f"}, "c7"),
            ("ls", {"path": "/"}, "c8"),
            ("grep", {"pattern": "("}, "c9"),
            ("ls", {"path": "/d/f"}, "c10"),
            ("read", {"path": "/d"}, "c11"),
        )
    )
    ran = await play(agent, tmp_path)
    assert (tmp_path / "box/d/f").read_text() == "1 2 2"
    assert ran.shown("c1") == "wrote 11 bytes to /d/f"
    assert "occurs 2 times" in ran.shown("c3")
    assert ran.shown("c4") == "replaced 2 in /d/f"
    assert "does not occur" in ran.shown("c5")
    assert ran.shown("c6") == "/d/f:1:1 2 2"
    assert (ran.shown("c7"), ran.shown("c8")) == ("/d/f", "/d/")
    assert ran.facts("c9")["error"] == "bad_pattern"
    assert ran.facts("c10")["error"] == "not_a_directory"
    assert ran.facts("c11")["error"] == "is_a_directory"


async def test_long_files_are_read_in_parts(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "box/f").write_text("".join(f"{number}\n" for number in range(1, 11)))
    agent, _ = scripted_agent(
        say("", ("read", {"path": "f", "offset": 3, "limit": 2}, "c1"), ("read", {"path": "f", "offset": 99}, "c2"))
    )
    ran = await play(agent, tmp_path)
    assert ran.shown("c1") == "3\n4\n\n[6 more lines]"
    assert ran.shown("c2") == "(no line 99: the file has 10 lines)"


async def test_a_flood_is_shown_by_its_head_and_tail_with_the_exit_code(tmp_path: Path) -> None:
    command = "echo first; seq 100000; echo last; exit 3"
    agent, _ = scripted_agent(say("", ("bash", {"command": command}, "c1")), output_chars=1000)
    ran = await play(agent, tmp_path)
    shown = ran.shown("c1")
    assert len(shown) < 1200
    assert shown.startswith("first\n1\n2\n") and shown.endswith("last\n[exit code 3]")
    assert "characters left out" in shown
    assert (ran.facts("c1")["truncated"], ran.facts("c1")["exit_code"]) == (True, 3)


async def test_a_command_that_misses_its_deadline_is_reported_as_124(tmp_path: Path) -> None:
    agent, _ = scripted_agent(say("", ("bash", {"command": "echo begun; sleep 30", "timeout_sec": 0.1}, "c1")))
    ran = await play(agent, tmp_path)
    assert ran.shown("c1") == "begun\n[exit code 124: killed after 1 s]"
    assert (ran.facts("c1")["exit_code"], ran.facts("c1")["timed_out"]) == (124, True)


@pytest.mark.case("H10")
async def test_no_host_path_and_no_traceback_reaches_the_model(tmp_path: Path) -> None:
    class Leaky(FolderSandbox):
        async def read(self, path: str, *, max_bytes: int = 64 << 20) -> bytes:
            raise RuntimeError("at /home/someone/secret/backend.py")

        async def ls(self, path: str = ".") -> Any:
            raise PermissionError(13, "denied", "/home/someone/secret")

    agent, model = scripted_agent(say("", ("read", {"path": "x"}, "c1"), ("ls", {"path": "y"}, "c2")))
    ran = await play(agent, tmp_path, Leaky(tmp_path))
    assert ran.shown("c1") == "error: the tool failed"
    assert ran.shown("c2") == "error: permission denied: y"
    assert "someone" not in json.dumps([message.content for message in model.sent[-1]])


async def test_a_sandbox_that_dies_is_not_a_result_but_an_error(tmp_path: Path) -> None:
    class Dead(FolderSandbox):
        async def read(self, path: str, *, max_bytes: int = 64 << 20) -> bytes:
            raise SandboxUnavailable("gone")

    agent, _ = scripted_agent(say("", ("read", {"path": "x"}, "c1"), ("read", {"path": "y"}, "c2")))
    with pytest.raises(SandboxUnavailable):
        await play(agent, tmp_path, Dead(tmp_path))
    assert len(load_trajectory(tmp_path / "agent" / "trajectory.json").steps) == 3


async def test_a_refusal_is_an_end_of_its_own(tmp_path: Path) -> None:
    async with serving(completion(message={"content": None, "refusal": "I will not."})) as server:
        agent = ToolCallingAgent(LoopConfig(), OpenAIChat(Endpoint(model="m", base_url=server.url)))
        ran = await play(agent, tmp_path)
        await agent.close()
    assert (ran.result.stop, ran.result.detail) == (AgentStop.REFUSAL, "I will not.")


@pytest.mark.case("C5")
async def test_an_overflow_ends_the_run_without_asking_again(tmp_path: Path) -> None:
    agent, model = scripted_agent(say("", ("ls", {}, "c1")), on_end="repeat", overflows_at=[3])
    ran = await play(agent, tmp_path)
    assert (ran.result.stop, len(model.sent)) == (AgentStop.CONTEXT_OVERFLOW, 3)


@pytest.mark.case("C11")
async def test_an_overflow_can_be_met_by_removing_old_turns_once(tmp_path: Path) -> None:
    turns = [say(f"turn {number}", ("ls", {}, f"c{number}"), ("ls", {}, f"d{number}")) for number in range(6)]
    agent, model = scripted_agent(*turns, overflows_at=[5], compact=True, compact_keep_messages=4)
    ran = await play(agent, tmp_path)
    assert ran.result.stop is AgentStop.FINISHED
    before, after = model.sent[4], model.sent[5]
    assert len(after) < len(before)
    assert after[0] == before[0] and after[1].content.startswith("Do it.")
    assert "Earlier turns were removed" in after[1].content
    assert [message.content for message in after if message.role == "assistant"] == ["turn 2", "turn 3"]
    events = [step.extra for step in ran.trajectory.steps if step.extra and "event" in step.extra]
    assert [event["event"] for event in events] == ["compaction"]


async def test_a_second_overflow_right_after_compaction_ends_the_run(tmp_path: Path) -> None:
    turns = [say("", ("ls", {}, "c")) for _ in range(9)]
    agent, model = scripted_agent(*turns, overflows_at=[4, 5], compact=True, compact_keep_messages=2)
    ran = await play(agent, tmp_path)
    assert (ran.result.stop, len(model.sent)) == (AgentStop.CONTEXT_OVERFLOW, 5)


async def test_a_cancelled_run_leaves_its_calls_in_a_valid_trajectory(tmp_path: Path) -> None:
    agent, _ = scripted_agent(say("", ("bash", {"command": "echo $$ > pid; sleep 60"}, "c1")))
    (tmp_path / "box").mkdir()
    task = asyncio.create_task(play(agent, tmp_path))
    while not (tmp_path / "box" / "pid").exists():
        await asyncio.sleep(0.01)
    assert load_trajectory(tmp_path / "agent" / "trajectory.json").steps[2].tool_calls is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    step = load_trajectory(tmp_path / "agent" / "trajectory.json").steps[2]
    assert step.observation is not None and step.observation.results[0].extra == {"interrupted": True}


async def test_over_the_wire_every_request_is_valid_and_the_record_has_tokens_and_sampling(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    answers = (
        failure(429),
        completion(calls=[("c1", "bash", '{"command": "echo hi"}'), ("c2", "bash", "{oops")], usage=usage),
        call("finish", id="c3"),
    )
    async with serving(*answers) as server:
        endpoint = Endpoint(
            model="m", base_url=server.url, parameters={"temperature": 0.3}, retry=RetryPolicy(base_sec=0.001)
        )
        agent = ToolCallingAgent(LoopConfig(), OpenAIChat(endpoint))
        ran = await play(agent, tmp_path)
        await agent.close()
    assert ran.result.stop is AgentStop.FINISHED
    sent = server.requests[-1]["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "tool"]
    assert sent[2]["tool_calls"][1]["function"]["arguments"] == "{}"
    metrics = ran.trajectory.steps[2].metrics
    assert metrics is not None and metrics.extra is not None
    assert (metrics.prompt_tokens, metrics.completion_tokens) == (10, 5)
    assert metrics.extra["sampling"] == {"temperature": 0.3}
    assert (metrics.extra["finish_reason"], metrics.extra["retries"]) == ("tool_calls", 1)
    totals = ran.trajectory.final_metrics
    assert totals is not None and totals.extra is not None and totals.extra["incomplete"] is True


@pytest.mark.case("C6")
async def test_a_saturated_endpoint_is_raised_and_not_taken_for_an_answer(tmp_path: Path) -> None:
    async with serving(failure(429, "slow down")) as server:
        endpoint = Endpoint(model="m", base_url=server.url, retry=RetryPolicy(max_retries=2, base_sec=0.001))
        agent = ToolCallingAgent(LoopConfig(), OpenAIChat(endpoint))
        with pytest.raises(ModelRateLimited):
            await play(agent, tmp_path)
        await agent.close()
    assert [step.source for step in load_trajectory(tmp_path / "agent/trajectory.json").steps] == ["system", "user"]


async def test_commands_run_as_the_user_that_the_step_names(tmp_path: Path) -> None:
    users: list[str | None] = []

    class Asked(FolderSandbox):
        async def execute(self, command: str, **options: Any) -> Any:
            users.append(options["user"])
            return await super().execute(command, **options)

    agent, _ = scripted_agent(say("", ("bash", {"command": "true"}, "c1")))
    await play(agent, tmp_path, Asked(tmp_path), step=make_step(agent_user="worker"))
    assert users == ["worker"]


async def test_one_agent_serves_many_runs_at_once(tmp_path: Path) -> None:
    agent, _ = scripted_agent(
        say("", ("bash", {"command": "sleep 0.05; pwd"}, "c1")), say("", ("ls", {}, "c2")), say("bye"), say("bye")
    )
    folders = [tmp_path / str(number) for number in range(5)]
    for folder in folders:
        folder.mkdir()
    runs = await asyncio.gather(*(play(agent, folder) for folder in folders))
    assert {ran.result.stop for ran in runs} == {AgentStop.FINISHED}
    assert all(str(folder) in ran.shown("c1") for ran, folder in zip(runs, folders, strict=True))
