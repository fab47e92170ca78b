"""The model that plays a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import ModelRejected, UsageError
from harness.llm.protocol import CallContext
from harness.llm.scripted import ScriptedModel, load_script

SCRIPT = """
[[replies]]
text = "looking"
calls = [{ name = "ls" }, { name = "read", arguments = { path = "a" }, id = "mine" }]

[[tasks."acme/*"]]
text = "for acme"
prompt_tokens = 10
finish_reason = "length"
calls = [{ name = "bash", arguments = '{"command": "l' }]
"""


def scripted(tmp_path: Path, text: str = SCRIPT, name: str = "s.toml") -> ScriptedModel:
    (tmp_path / name).write_text(text)
    return ScriptedModel(load_script(tmp_path / name))


def at(turn: int, task: str = "other") -> CallContext:
    return CallContext(task_name=task, turn=turn, seed=0, time_left=1.0)


async def test_reply_n_answers_the_nth_call_and_every_run_hears_the_same(tmp_path: Path) -> None:
    model = scripted(tmp_path)
    for _ in range(2):
        reply = await model.complete((), (), at(0))
        assert (reply.content, reply.finish_reason, reply.prompt_tokens) == ("looking", "tool_calls", None)
        assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [
            ("call_1_1", "ls", "{}"),
            ("mine", "read", '{"path": "a"}'),
        ]


async def test_the_first_pattern_that_fits_the_task_wins_and_raw_arguments_are_sent_as_they_are(tmp_path: Path) -> None:
    reply = await scripted(tmp_path).complete((), (), at(0, "acme/hello"))
    assert (reply.content, reply.prompt_tokens, reply.truncated) == ("for acme", 10, True)
    assert reply.tool_calls[0].arguments == '{"command": "l'


@pytest.mark.parametrize(("on_end", "expected"), [("finish", "finish"), ("repeat", "ls")])
async def test_after_the_last_reply_comes_what_the_script_says(tmp_path: Path, on_end: str, expected: str) -> None:
    model = scripted(tmp_path, f'on_end = "{on_end}"\n{SCRIPT}')
    assert (await model.complete((), (), at(9))).tool_calls[0].name == expected


async def test_a_script_may_insist_on_its_end(tmp_path: Path) -> None:
    with pytest.raises(ModelRejected, match="no reply number 2 for task 'other'"):
        await scripted(tmp_path, f'on_end = "error"\n{SCRIPT}').complete((), (), at(1))


async def test_json_serves_as_well_as_toml(tmp_path: Path) -> None:
    model = scripted(tmp_path, '{"replies": [{"text": "hi"}]}', "s.json")
    assert (await model.complete((), (), at(0))).content == "hi"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("replies = 3", r"s\.toml: replies: "),
        ("[[replies]]\ntex = 'x'", r"s\.toml: replies\.0\.tex: "),
        ("[[", r"s\.toml: "),
        ("on_end = 'explode'", r"s\.toml: on_end: "),
    ],
)
def test_a_bad_script_is_one_line_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        scripted(tmp_path, text)
    assert "\n" not in str(refused.value)


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the script"):
        load_script(tmp_path / "none.toml")
