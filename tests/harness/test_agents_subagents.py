"""Sub-agents: what they know, what they may spend, how they end, and where they are recorded."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from agent_runs import Ran, Watched, make_run, play, say
from folder_sandbox import FolderSandbox
from interactive_runs import results_of

from harness.agents.tool_calling.config import LoopConfig
from harness.agents.tool_calling.loop import ToolCallingAgent
from harness.atif.model import Trajectory
from harness.atif.reader import findings, load_trajectory, usage_of
from harness.atif.writer import INTERRUPTED
from harness.errors import ModelRejected
from harness.failures import AgentStop
from harness.llm.scripted import Script


def delegate(*descriptions: str) -> dict[str, Any]:
    """One turn that starts these sub-agents; a call's id is its description."""
    return say("", *(("task", {"description": each, "prompt": f"Do {each}."}, each) for each in descriptions))


def agent_of(
    *replies: dict[str, Any], on_end: str = "finish", config: dict[str, Any] | None = None, **subs: Any
) -> tuple[ToolCallingAgent, Watched]:
    """The agent whose sub-agents are played by the replies of their description."""
    model = Watched(Script.model_validate({"replies": replies, "subagents": subs, "on_end": on_end}))
    return ToolCallingAgent(LoopConfig(**(config or {})), model), model


def embedded(ran: Ran) -> dict[str, Trajectory]:
    """The embedded trajectories by description; each is referred to by the result of its call."""
    found = {}
    by_id = {each.trajectory_id: each for each in ran.trajectory.subagent_trajectories or ()}
    for result in ran.results.values():
        for ref in result.subagent_trajectory_ref or ():
            inner = by_id.pop(ref.trajectory_id)
            assert findings(inner) == []
            assert inner.extra is not None
            found[inner.extra["description"]] = inner
            assert result.source_call_id == inner.extra["description"]
    assert not by_id
    return found


async def test_a_sub_agent_has_a_fresh_conversation_in_the_same_sandbox_and_its_summary_is_the_result(
    tmp_path: Path,
) -> None:
    count = [
        say("", ("bash", {"command": "cat seed; echo counted > out"})),
        say("", ("finish", {"summary": "There are 3."})),
    ]
    agent, model = agent_of(say("", ("bash", {"command": "echo 3 > seed"})), delegate("count"), count=count)
    ran = await play(agent, tmp_path)
    assert ran.shown("count") == "There are 3."
    assert (tmp_path / "box" / "out").read_text() == "counted\n"
    first = model.sent[2]
    assert [message.role for message in first] == ["system", "user"]
    assert first[0].content.startswith("You are a sub-agent")
    assert first[1].content == "Do count."
    inner = embedded(ran)["count"]
    assert [step.source for step in inner.steps] == ["system", "user", "agent", "agent"]
    assert inner.agent.tool_definitions is not None
    names = [each["function"]["name"] for each in inner.agent.tool_definitions]
    assert names == ["bash", "read", "write", "edit", "ls", "grep", "glob", "finish"], "no task: nothing nests"
    assert ran.result.metadata["subagents"] == 1


async def test_a_text_alone_is_a_sub_agents_answer(tmp_path: Path) -> None:
    agent, _ = agent_of(delegate("look"), look=[say("All is well.")])
    assert (await play(agent, tmp_path)).shown("look") == "All is well."


async def test_several_in_one_turn_work_side_by_side_also_next_to_inspection(tmp_path: Path) -> None:
    meet = "touch {0}; i=0; until [ -e {1} ] || [ $i = 100 ]; do sleep 0.05; i=$((i+1)); done; [ -e {1} ] && echo met"
    turn = delegate("a", "b")
    turn["calls"].append({"name": "ls", "arguments": {}})
    agent, _ = agent_of(
        turn,
        a=[say("", ("bash", {"command": meet.format("a", "b")}))],
        b=[say("", ("bash", {"command": meet.format("b", "a")}))],
    )
    ran = await play(agent, tmp_path)
    assert [results_of(inner)[0].splitlines()[0] for inner in embedded(ran).values()] == ["met", "met"]


async def test_a_turn_that_also_changes_something_runs_in_the_order_of_its_calls(tmp_path: Path) -> None:
    turn = say(
        "",
        ("task", {"description": "a", "prompt": "x"}, "a"),
        ("bash", {"command": "cat made"}, "then"),
    )
    agent, _ = agent_of(turn, a=[say("", ("bash", {"command": "sleep 0.2; echo first > made"}))])
    assert (await play(agent, tmp_path)).shown("then").startswith("first")


async def test_only_so_many_work_at_a_time(tmp_path: Path) -> None:
    alone = "mkdir busy && sleep 0.1 && rmdir busy && echo alone"
    replies = {name: [say("", ("bash", {"command": alone}))] for name in "abc"}
    agent, _ = agent_of(delegate("a", "b", "c"), config={"subagents_at_once": 1}, **replies)
    inners = embedded(await play(agent, tmp_path)).values()
    assert [results_of(inner)[0].splitlines()[0] for inner in inners] == ["alone"] * 3


async def test_a_sub_agent_that_over_runs_is_a_result_for_its_parent_with_its_last_words(tmp_path: Path) -> None:
    endless = [say("Still at it.", ("ls", {})) for _ in range(9)]
    agent, model = agent_of(delegate("endless"), config={"subagent_max_turns": 2}, endless=endless)
    ran = await play(agent, tmp_path)
    assert ran.result.stop is AgentStop.FINISHED
    assert ran.facts("endless")["error"] == "subagent_max_turns"
    assert "all 2 turns used" in ran.shown("endless") and "Still at it." in ran.shown("endless")
    assert len(model.sent) == 1 + 2 + 1


async def test_turns_of_sub_agents_are_turns_of_the_run_and_cannot_overdraw_them(tmp_path: Path) -> None:
    many = [say("", ("bash", {"command": "sleep 0.02"})) for _ in range(9)]
    agent, model = agent_of(delegate("a", "b", "c"), config={"max_turns": 8}, a=many, b=many, c=many)
    ran = await play(agent, tmp_path)
    assert ran.result.stop is AgentStop.MAX_TURNS
    assert len(model.sent) == 8
    assert {ran.facts(name)["error"] for name in "abc"} == {"subagent_max_turns"}


async def test_the_token_budget_is_shared(tmp_path: Path) -> None:
    costly = [say("", ("ls", {}), prompt_tokens=90, completion_tokens=10) for _ in range(9)]
    agent, _ = agent_of(delegate("a"), config={"token_budget": 250}, a=costly)
    ran = await play(agent, tmp_path)
    assert ran.facts("a")["error"] == "subagent_token_budget"
    assert ran.result.stop is AgentStop.TOKEN_BUDGET


async def test_usage_is_counted_once_in_the_runs_totals(tmp_path: Path) -> None:
    tokens = {"prompt_tokens": 100, "completion_tokens": 10}
    turn = {**delegate("a", "b"), **tokens}
    agent, _ = agent_of(turn, say("Done.", ("finish", {}), **tokens), a=[say("x", **tokens)], b=[say("y", **tokens)])
    (tmp_path / "box").mkdir()
    run = make_run(tmp_path, FolderSandbox(tmp_path / "box"))
    await agent.run(run)
    run.trajectory.close()
    usage = run.trajectory.usage
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (4, 400, 40)
    document = load_trajectory(run.trajectory.path)
    parts = [usage_of(document), *(usage_of(each) for each in document.subagent_trajectories or ())]
    assert [part.prompt_tokens for part in parts] == [200, 100, 100]
    assert document.final_metrics is not None and document.final_metrics.total_prompt_tokens == 200


async def test_what_fails_of_the_endpoints_ends_the_run_and_no_sibling_goes_on(tmp_path: Path) -> None:
    slow = [say("", ("bash", {"command": "touch started; sleep 30"}))]
    broken = [say("", ("bash", {"command": "until [ -e started ]; do sleep 0.02; done"}))]
    agent, _ = agent_of(delegate("broken", "slow"), on_end="error", slow=slow, broken=broken)
    (tmp_path / "box").mkdir()
    run = make_run(tmp_path, FolderSandbox(tmp_path / "box"))
    started = time.monotonic()
    with pytest.raises(ModelRejected, match="no reply number 2 for sub-agent 'broken'"):
        await agent.run(run)
    run.trajectory.close()
    assert time.monotonic() - started < 10
    document = load_trajectory(run.trajectory.path)
    slow_one = next(each for each in document.subagent_trajectories or () if each.extra == {"description": "slow"})
    assert results_of(slow_one) == [INTERRUPTED]


async def test_cancelling_leaves_nothing_running_and_every_trajectory_valid(tmp_path: Path) -> None:
    command = "echo $$ > pid-{0}; sleep 60"
    replies = {name: [say("", ("bash", {"command": command.format(name)}))] for name in "ab"}
    agent, _ = agent_of(delegate("a", "b"), **replies)
    box = tmp_path / "box"
    box.mkdir()
    run = make_run(tmp_path, FolderSandbox(box))
    working = asyncio.create_task(agent.run(run))
    while not all((box / f"pid-{name}").exists() and (box / f"pid-{name}").read_text() for name in "ab"):
        await asyncio.sleep(0.02)
        assert findings(load_trajectory(run.trajectory.path)) == [], "valid at every moment"
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    run.trajectory.close()
    document = load_trajectory(run.trajectory.path)
    assert results_of(document) == [INTERRUPTED] * 2
    refs = [ref.trajectory_id for result in _results(document) for ref in result.subagent_trajectory_ref or ()]
    assert sorted(map(str, refs)) == sorted(str(each.trajectory_id) for each in document.subagent_trajectories or ())
    assert [results_of(each) for each in document.subagent_trajectories or ()] == [[INTERRUPTED]] * 2
    for name in "ab":
        assert not Path(f"/proc/{(box / f'pid-{name}').read_text().strip()}").exists()


async def test_an_empty_prompt_or_description_starts_nothing(tmp_path: Path) -> None:
    agent, _ = agent_of(say("", ("task", {"description": "", "prompt": "x"}, "c1"), ("task", {}, "c2")))
    ran = await play(agent, tmp_path)
    assert (ran.facts("c1")["error"], ran.facts("c2")["error"]) == ("bad_arguments", "bad_arguments")
    assert ran.trajectory.subagent_trajectories is None


def _results(document: Trajectory) -> list[Any]:
    return [result for step in document.steps if step.observation for result in step.observation.results]
