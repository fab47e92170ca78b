"""Trials in which the task talks with its agent: questions, memory, skills, standing instructions and more turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_runs import say
from interactive_runs import interactive_task, play_trial, results_of, stepped_task

from harness.agents.nop import NopAgent
from harness.agents.oracle import OracleAgent
from harness.atif.writer import INTERRUPTED
from harness.failures import Outcome

USER = """
[metadata.harness.user]
max_questions = 3
[[metadata.harness.user.answers]]
when = "(?i)which folder"
say = "The one under /srv/b."
once = true
[[metadata.harness.user.answers]]
when = "(?i)colou?r"
say = "Blue."
"""


def ask(question: str) -> dict[str, object]:
    return say("", ("ask_user", {"question": question}))


async def test_the_user_answers_by_the_first_pattern_that_fits_and_the_verifier_is_told(tmp_path: Path) -> None:
    questions = ["Which folder?", "WHICH FOLDER, please?", "What color?", "What color again?"]
    played = await play_trial(tmp_path, interactive_task(tmp_path, USER), [ask(each) for each in questions])
    default = "I can't help with that."
    answers = ["The one under /srv/b.", default, "Blue.", default]
    assert played.shown() == [*answers, "finished"]
    expected = {
        "questions": 4,
        "answered": 2,
        "exchanges": [
            {"step": None, "question": question, "answer": answer, "matched": answer != default}
            for question, answer in zip(questions, answers, strict=True)
        ],
    }
    assert played.user_json() == expected
    record = json.loads(played.paths.result.read_text())["user"]
    assert record == {**expected, "turns": 0, "usage": None}
    assert "ask_user" in played.system()


@pytest.mark.parametrize("agent", [OracleAgent(), NopAgent()])
async def test_an_agent_that_asks_nothing_leaves_an_empty_record(tmp_path: Path, agent: OracleAgent | NopAgent) -> None:
    played = await play_trial(tmp_path, interactive_task(tmp_path, USER), agent=agent)
    assert played.result.outcome is Outcome.SCORED
    assert played.user_json() == {"questions": 0, "answered": 0, "exchanges": []}


async def test_without_a_user_there_is_nothing_to_ask_and_nothing_to_tell(tmp_path: Path) -> None:
    test = "#!/bin/sh\n[ ! -e /tests/user.json ] && echo 1 > /logs/verifier/reward.txt\n"
    played = await play_trial(tmp_path, interactive_task(tmp_path, test=test), [ask("Anyone?")])
    assert played.result.reward == 1.0
    assert "there is no tool 'ask_user'" in played.shown()[0]
    assert "nobody to ask" in played.system()
    assert played.result.user is None


async def test_what_an_agent_plants_is_replaced_by_what_the_harness_knows(tmp_path: Path) -> None:
    forged = (
        "mkdir -p /tests; echo '{\"questions\": 0}' > /tests/user.json; chmod 000 /tests/user.json; chattr +i /tests"
    )
    calls = say("", ("bash", {"command": f"{forged} || true"}), ("ask_user", {"question": "colour?"}))
    played = await play_trial(tmp_path, interactive_task(tmp_path, USER), [calls])
    assert played.user_json()["questions"] == 1


async def test_an_answer_can_belong_to_one_step_and_every_verifier_sees_the_exchanges_so_far(
    tmp_path: Path,
) -> None:
    user = '[metadata.harness.user]\n[[metadata.harness.user.answers]]\nwhen = "code"\nsay = "417"\nstep = "two"\n'
    played = await play_trial(tmp_path, stepped_task(tmp_path, user), [ask("The code?")])
    assert played.user_json("one")["answered"] == 0
    second = played.user_json("two")
    assert (second["questions"], second["answered"]) == (2, 1)
    assert [exchange["step"] for exchange in second["exchanges"]] == ["one", "two"]


async def test_tests_of_several_folders_get_the_users_record_too(tmp_path: Path) -> None:
    task = stepped_task(tmp_path, USER, names=("one",), **{"tests/shared.sh": "true\n"})
    played = await play_trial(tmp_path, task, [ask("Which colour?")])
    assert played.user_json("one")["answered"] == 1


async def test_secrets_in_a_question_reach_neither_the_record_nor_the_verifier(tmp_path: Path) -> None:
    task = interactive_task(tmp_path, USER, top='[verifier.env]\nKEY = "${THE_KEY}"')
    played = await play_trial(
        tmp_path, task, [ask("colour of s3cr3t-value-9?")], context={"host_env": {"THE_KEY": "s3cr3t-value-9"}}
    )
    assert played.user_json()["exchanges"][0]["question"] == "colour of [redacted]?"
    assert "s3cr3t" not in played.paths.result.read_text()


async def test_standing_instructions_memory_and_skills_are_in_the_system_prompt(tmp_path: Path) -> None:
    skill = "---\nname: invoices\ndescription: >\n  How invoices\n  are written.\n---\nBody.\n"
    hostile = "---\nname: \x1b[31m" + "x" * 500 + "\ndescription: " + "y" * 5000 + "\n"
    task = interactive_task(
        tmp_path,
        'system_prompt = "Always sign with Z."\nmemory_dir = "/memory"',
        top='[environment]\nskills_dir = "/skills"',
        dockerfile="FROM debian:bookworm-slim\nWORKDIR /app\nCOPY skills /skills\n",
        files={
            "environment/skills/invoices/SKILL.md": skill,
            "environment/skills/odd/SKILL.md": hostile,
            "environment/skills/empty/notes.txt": "",
        },
        test="#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n",
    )
    played = await play_trial(tmp_path, task, [say("", ("read", {"path": "/skills/invoices/SKILL.md"}))])
    system = played.system()
    assert system.endswith("\n\nAlways sign with Z.\n")
    assert "- invoices: How invoices are written. [/skills/invoices/SKILL.md]" in system
    assert "- odd: (not described) [/skills/odd/SKILL.md]" in system
    assert "empty" not in system.partition("Skills are")[2]
    assert "Your memory is the folder /memory" in system
    assert "Body." in played.shown()[0]


async def test_memory_outlives_a_reset_and_the_steps_scripts_are_told_apart(tmp_path: Path) -> None:
    script = {
        "tasks": {
            "greet#one": [say("", ("memory", {"command": "create", "path": "facts.md", "file_text": "code 417\n"}))],
            "greet#two": [say("", ("memory", {"command": "view", "path": "/memory/facts.md"}))],
        }
    }
    played = await play_trial(tmp_path, stepped_task(tmp_path, 'memory_dir = "/memory"' + USER), script)
    assert played.shown("two") == ["code 417\n", "finished"]
    second = next(messages for messages in played.model.sent if messages[1].content == "Do two.")
    assert [message.role for message in second] == ["system", "user"]


async def test_a_conversation_that_continues_is_one_history_over_all_steps(tmp_path: Path) -> None:
    script = {
        "tasks": {
            "greet#one": [say("Noted: 417.", ("bash", {"command": "echo one"})), say("", ("finish", {}))],
            "greet#two": [say("", ("bash", {"command": "echo two"}))],
        }
    }
    played = await play_trial(tmp_path, stepped_task(tmp_path, 'conversation = "continue"' + USER), script)
    sent = played.model.sent[2]
    assert [(each.role, each.content) for each in sent[1:]] == [
        ("user", "Do one."),
        ("assistant", "Noted: 417."),
        ("tool", "one\n[exit code 0]"),
        ("assistant", ""),
        ("tool", "finished"),
        ("user", "Do two."),
    ]
    steps = played.trajectory("two").steps
    assert [step.is_copied_context for step in steps] == [True] * 4 + [None] * 3
    assert (steps[4].source, steps[4].message) == ("user", "Do two.")
    assert played.result.step_results is not None
    usage = [step.agent_result.n_calls for step in played.result.step_results if step.agent_result]
    assert usage == [2, 2], "what was copied is not counted again"


async def test_the_user_says_the_next_thing_each_time_the_agent_finishes(tmp_path: Path) -> None:
    task = interactive_task(tmp_path, 'turns = ["And now B.", "Thanks, and C?"]' + USER)
    replies = [say("A is done."), say("Really."), say("", ("finish", {"summary": "B"})), say("", ("finish", {}))]
    played = await play_trial(tmp_path, task, replies)
    messages = [str(step.message) for step in played.trajectory().steps if step.source == "user"]
    assert messages == ["Say hello.", "And now B.", "Thanks, and C?"]
    assert played.result.user is not None and played.result.user.turns == 2
    assert played.model.sent[2][-1].content == "And now B."
    assert len(played.model.sent) == 4


async def test_the_budget_of_turns_is_the_runs_not_that_of_each_message(tmp_path: Path) -> None:
    task = interactive_task(tmp_path, 'turns = ["Again."]' + USER)
    played = await play_trial(tmp_path, task, [], max_turns=1)
    assert played.result.tags == ["max_turns"] or "max_turns" in str(played.result.exception_info)
    assert played.result.user is not None and played.result.user.turns == 1


async def test_the_deadline_ends_sub_agents_too_and_what_they_did_is_kept(tmp_path: Path) -> None:
    script = {
        "replies": [say("", *(("task", {"description": name, "prompt": "Wait."}) for name in "ab"))],
        "subagents": {"[ab]": [say("Waiting.", ("bash", {"command": "sleep 77.5"}), prompt_tokens=7)]},
    }
    context = {"agent_timeout": 2.0}
    played = await play_trial(tmp_path, interactive_task(tmp_path, USER), script, context=context)
    assert (played.result.outcome, played.result.reward) == (Outcome.SCORED, 1.0)
    assert played.result.tags == ["agent_timeout"]
    embedded = played.trajectory().subagent_trajectories or []
    ends = [result for each in embedded for result in results_of(each)]
    assert len(ends) >= 2 and all(end == INTERRUPTED or "killed after" in end or end == "finished" for end in ends)
    assert played.result.agent_result is not None and played.result.agent_result.n_input_tokens == 14
    commands = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
    assert not any(b"sleep\x0077.5" in command for command in commands)
