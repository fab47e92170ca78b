"""Repeating a recorded run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from agent_runs import make_step, play, say, scripted_agent

from harness.agents.replay import ReplayAgent, ReplayConfig, create_replay, find_recording, repeatable
from harness.atif.model import ToolCall
from harness.errors import TaskUnsupported, UsageError
from harness.failures import AgentStop

RECORDED = Path(__file__).parent / "data" / "harbor-0.26-trajectory.json"


def replaying(source: Path) -> ReplayAgent:
    return ReplayAgent(ReplayConfig(source=source))


def call(name: str, extra: dict[str, Any] | None = None, **arguments: Any) -> ToolCall:
    return ToolCall(tool_call_id="c", function_name=name, arguments=arguments, extra=extra)


def job(folder: Path, *trials: tuple[str, str, Path], inner: str = "agent") -> Path:
    """A job's folder with (trial, task, trajectory)s."""
    for trial, task, trajectory in trials:
        (folder / trial / inner).mkdir(parents=True)
        (folder / trial / "result.json").write_text(json.dumps({"task_name": task}))
        shutil.copy(trajectory, folder / trial / inner / "trajectory.json")
    return folder


async def test_a_run_of_ours_is_repeated_call_by_call(tmp_path: Path) -> None:
    agent, _ = scripted_agent(
        say("write", ("write", {"path": "/a", "content": "1"}, "c1"), ("bash", "{oops", "c2")),
        say("", ("bash", {"command": "echo 2 >> a; cat a"}, "c3")),
        say("", ("finish", {}, "c4")),
    )
    (tmp_path / "first").mkdir()
    (tmp_path / "again").mkdir()
    first = await play(agent, tmp_path / "first")
    again = await play(replaying(tmp_path / "first/agent/trajectory.json"), tmp_path / "again")
    assert again.result.stop is AgentStop.FINISHED
    assert (again.result.detail, again.result.metadata) == (None, {"repeated": 3, "not_repeated": 0})
    assert (tmp_path / "again/box/a").read_text() == (tmp_path / "first/box/a").read_text() == "12\n"
    assert again.shown("c3") == first.shown("c3")
    assert again.facts("c2")["error"] == "not_repeated"
    assert all(step.metrics is None for step in again.trajectory.steps)


async def test_what_harbors_terminal_agent_typed_is_repeated_as_commands(tmp_path: Path) -> None:
    document = tmp_path / "t.json"
    document.write_text(RECORDED.read_text().replace("/app/hello.txt", "hello.txt"))
    ran = await play(replaying(document), tmp_path)
    assert (tmp_path / "box/hello.txt").read_text() == "hello\n"
    assert ran.result.metadata == {"repeated": 1, "not_repeated": 2}
    assert ran.result.detail == "2 of 3 calls could not be repeated"


@pytest.mark.parametrize(
    ("recorded", "command"),
    [
        (call("bash", command="ls", timeout_sec=3), "ls"),
        (call("bash", command="ls", restart=True), "ls"),
        (call("bash_command", keystrokes="ls\n", duration=0.1), "ls\n"),
        (call("execute_bash", cmd="ls"), "ls"),
        (call("terminal", input="ls"), "ls"),
        (call("bash_command", keystrokes="C-c"), None),
        (call("bash_command", keystrokes="", duration=5), None),
        (call("browse", command="ls"), None),
        (call("bash", {"fault": "malformed"}, command="ls"), None),
    ],
)
def test_other_agents_shells_are_known_by_name(recorded: ToolCall, command: str | None) -> None:
    ours = repeatable(recorded)
    assert (None if ours is None else ours.values["command"]) == command


def test_a_recording_is_found_by_its_task_in_the_first_folder_by_name(tmp_path: Path) -> None:
    folder = job(tmp_path, ("b__2", "acme/b", RECORDED), ("b__1", "acme/b", RECORDED), ("a__1", "acme/a", RECORDED))
    (tmp_path / "b__1/agent/trajectory.json").write_text(RECORDED.read_text().replace("tt__c6ii2kd", "first"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/result.json").write_text("{")
    assert find_recording(folder, "acme/b", None).session_id == "first__agent"
    with pytest.raises(TaskUnsupported, match="no trajectory of task 'acme/c'"):
        find_recording(folder, "acme/c", None)


async def test_a_step_of_a_task_has_a_recording_of_its_own(tmp_path: Path) -> None:
    folder = job(tmp_path / "job", ("m__1", "t", RECORDED), inner="steps/two/agent")
    assert find_recording(folder, "t", "two").steps
    with pytest.raises(TaskUnsupported):
        await play(replaying(folder), tmp_path, step=make_step(name="one"))


def test_a_recording_that_cannot_be_read_is_the_tasks_own_trouble(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{")
    with pytest.raises(TaskUnsupported, match=r"cannot be replayed: .*t\.json: not strict JSON"):
        find_recording(tmp_path / "t.json", "t", None)


def test_nothing_to_replay_from_is_said_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no trajectory and no job folder"):
        create_replay(ReplayConfig(source=tmp_path / "none"), "replay")
