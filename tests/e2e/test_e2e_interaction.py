"""Tasks that talk with their agent, as a user runs, reads and repeats them; and Harbor's reader takes the record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import make_task
from command_line import by_task, harness
from harbor_reader import needs_harbor, read_by_harbor

TEST = "#!/bin/sh\ncp /tests/user.json /logs/verifier/ 2>/dev/null\necho {0} > /logs/verifier/reward.txt\n"
SCRIPT = """
[[tasks.ask]]
calls = [{ name = "ask_user", arguments = { question = "Which colour?" } }]
[[tasks.ask]]
calls = [{ name = "memory", arguments = { command = "create", path = "n.md", file_text = "Blue" } }]

[[tasks.crew]]
prompt_tokens = 100
completion_tokens = 5
calls = [
  { name = "task", arguments = { description = "count files", prompt = "Count." } },
  { name = "task", arguments = { description = "look around", prompt = "Look." } },
]
[[subagents."count*"]]
prompt_tokens = 50
completion_tokens = 5
calls = [{ name = "bash", arguments = { command = "echo counted > /app/count" } }]
[[subagents."look*"]]
text = "Nothing there."

[[subagents.user]]
text = "It is Blue, I think."
prompt_tokens = 30
completion_tokens = 6
"""
GRADE = "$([ -e /memory/n.md ] || [ -e /app/count ]; echo $((1 - $?)))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tasks, a script for them, and a harness.toml."""
    ask = '[metadata]\ncategories = ["hitl", "memory"]\n[metadata.harness]\nmemory_dir = "/memory"\n'
    ask += '[metadata.harness.user]\nanswers = [{ when = "(?i)which", say = "Blue." }]\n'
    make_task(tmp_path / "tasks", "ask", toml=ask, test=TEST.format(GRADE))
    crew = '[metadata]\ncategory = "subagents"\n'
    make_task(tmp_path / "tasks", "crew", toml=crew, test=TEST.format(GRADE))
    (tmp_path / "replies.toml").write_text(SCRIPT)
    (tmp_path / "harness.toml").write_text('[agents.mine]\ntype = "scripted"\nscript = "replies.toml"\n')
    return tmp_path


def run(folder: Path, name: str, *argv: str) -> Path:
    done = harness("run", "tasks", *argv, "--jobs-dir", folder / "jobs", "--name", name, "--plain", cwd=folder)
    assert done.code == 0, done.out + done.err
    return folder / "jobs" / name


def test_a_category_is_chosen_and_one_that_no_task_has_is_refused_with_those_there_are(folder: Path) -> None:
    assert by_task(run(folder, "a", "--category", "memory", "--agent", "nop")).keys() == {"ask"}
    both = run(folder, "b", "--category", "memory", "--category", "subagents", "--agent", "nop")
    assert by_task(both).keys() == {"ask", "crew"}
    refused = harness("run", "tasks", "--category", "memry", cwd=folder)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.strip().endswith("did you mean memory? (categories: hitl, memory, subagents)")
    listed = harness("tasks", "list", "tasks", "--category", "subagents", "--json", cwd=folder)
    assert [each["name"] for each in json.loads(listed.out)] == ["crew"]


def test_what_was_asked_and_who_helped_is_shown_and_a_replay_does_it_again(folder: Path) -> None:
    first = by_task(job := run(folder, "a", "--agent", "mine"))
    assert {task: record["reward"] for task, record in first.items()} == {"ask": 1.0, "crew": 1.0}
    assert first["crew"]["agent_result"]["n_input_tokens"] == 150
    shown = harness("show", job / "ask__1", cwd=folder).out
    assert "user: asked 1 times, answered 1" in shown and "asked: Which colour?" in shown and "told: Blue." in shown
    crew = harness("show", job / "crew__1", cwd=folder).out
    assert "| sub-agent: count files" in crew and "  |   > bash" in crew and "< Nothing there." in crew
    again = by_task(run(folder, "b", "--agent", "replay", "-o", f"source={job}"))
    assert {task: record["reward"] for task, record in again.items()} == {"ask": 1.0, "crew": 1.0}
    assert again["ask"]["user"]["questions"] == 1


def test_a_model_can_speak_for_the_user_and_is_paid_apart(folder: Path) -> None:
    record = by_task(run(folder, "a", "--agent", "mine", "--user", "mine", "--category", "hitl"))["ask"]
    assert record["user"]["exchanges"][0]["answer"] == "It is Blue, I think."
    assert record["user"]["usage"]["n_input_tokens"] == 30
    assert record["agent_result"]["n_input_tokens"] is None
    refused = harness("run", "tasks", "--user", "nop", cwd=folder)
    assert (refused.code, "has no model to speak for a user" in refused.err) == (2, True)


@pytest.mark.docker
@pytest.mark.slow
def test_it_is_the_same_in_containers(folder: Path) -> None:
    record = by_task(job := run(folder, "a", "--agent", "mine", "--backend", "docker"))
    assert {task: each["reward"] for task, each in record.items()} == {"ask": 1.0, "crew": 1.0}
    assert json.loads((job / "ask__1/verifier/user.json").read_text())["answered"] == 1


@pytest.mark.parametrize("tests_in_image", [True, False])
def test_a_verifier_with_a_sandbox_of_its_own_is_told_of_the_user_too(folder: Path, tests_in_image: bool) -> None:
    toml = (folder / "tasks/ask/task.toml").read_text() + '[verifier]\nenvironment_mode = "separate"\n'
    script = TEST.format("$(grep -c colour /tests/user.json)")
    image = {"tests/Dockerfile": "FROM debian:bookworm-slim\nCOPY . /tests\n"} if tests_in_image else {}
    make_task(folder / "tasks", "ask", toml=toml, test=script, files=image)
    record = by_task(job := run(folder, "a", "--agent", "mine", "--include", "ask"))["ask"]
    assert (record["reward"], record["verifier_environment_mode"]) == (1.0, "separate")
    assert json.loads((job / "ask__1/verifier/user.json").read_text())["questions"] == 1


@needs_harbor
@pytest.mark.slow
def test_harbors_own_reader_takes_trajectories_with_sub_agents_in_them(folder: Path) -> None:
    job = run(folder, "a", "--agent", "mine", "--user", "mine")
    found = read_by_harbor(job)
    assert found == {"completed": 2, "ask": [True, {"reward": 1.0}, 1], "crew": [True, {"reward": 1.0}, 1]}
    document = json.loads((job / "crew__1/agent/trajectory.json").read_text())
    assert len(document["subagent_trajectories"]) == 2
