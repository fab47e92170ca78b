"""What a task may say of the talk with its agent, and what is refused."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from builders import make_task

from harness.task.interaction import REACH, Answer, Interaction, UserScript
from harness.task.loader import load_task
from harness.task.model import BrokenTask, Task

PAGE = (Path(__file__).parents[2] / "harness" / "task" / "README.md").read_text(encoding="utf-8")


def load(folder: Path, toml: str, **fields: object) -> Task:
    task = load_task(make_task(folder, toml=toml, **fields))  # type: ignore[arg-type]
    assert isinstance(task, Task), task
    return task


def refusal(folder: Path, toml: str) -> str:
    task = load_task(make_task(folder, toml=toml))
    assert isinstance(task, BrokenTask), task
    assert "\n" not in task.reason
    return task.reason


def test_a_task_that_says_nothing_talks_to_its_agent_as_ever(tmp_path: Path) -> None:
    assert load(tmp_path, "").interaction == Interaction()


def test_everything_that_the_page_shows_is_understood(tmp_path: Path) -> None:
    task = load(tmp_path, re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0])
    assert task.findings == ()
    answer = Answer(when=re.compile("(?i)which (folder|directory)"), say="The one under /srv/b.", once=True)
    assert task.interaction == Interaction(
        system_prompt="Answer in French.",
        memory_dir="/memory",
        skills_dir="/skills",
        turns=("And now the other one.",),
        user=UserScript(answers=(answer,)),
    )


def test_a_key_that_nobody_reads_is_a_finding_with_its_likely_cure(tmp_path: Path) -> None:
    task = load(
        tmp_path,
        '[metadata]\nanything = 1\n[metadata.harness]\nmemory = "/m"\n[metadata.harness.user]\nmax_question = 3\n'
        '[[metadata.harness.user.answers]]\nwhen = "x"\nsay = "y"\nonly_once = true\n',
    )
    assert [finding.key for finding in task.findings] == [
        "metadata.harness.memory",
        "metadata.harness.user.max_question",
        "metadata.harness.user.answers.only_once",
    ]
    assert "did you mean 'memory_dir'?" in task.findings[0].message
    assert "line 6" in task.findings[1].message and "did you mean 'max_questions'?" in task.findings[1].message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("turns = 'x'", "metadata.harness.turns: Input should be a valid list"),
        ("turns = ['']", "metadata.harness.turns.0"),
        ("memory_dir = 'notes'", "metadata.harness.memory_dir"),
        ("memory_dir = '/a/../b'", "metadata.harness.memory_dir"),
        ("memory_dir = '/a b$(x)'", "metadata.harness.memory_dir"),
        ("memory_dir = '/'", "metadata.harness.memory_dir"),
        ("conversation = 'go on'", "'reset' or 'continue', not 'go on'"),
        ("user = 3", "metadata.harness.user"),
        ("user = {max_questions = -1}", "user.max_questions"),
        ("user = {answers = [{say = 'x'}]}", "user.answers.0.when: Field required"),
        ("user = {answers = [{when = '(', say = 'x'}]}", "user.answers.0.when: is not a regular expression"),
        ("user = {answers = [{when = 'a', say = 'x', step = 'one'}]}", "there is no step 'one'"),
    ],
)
def test_a_wrong_value_is_refused_in_one_line_that_names_it(tmp_path: Path, line: str, words: str) -> None:
    assert words in refusal(tmp_path, f"[metadata.harness]\n{line}\n")


def test_what_is_no_table_at_all_is_refused(tmp_path: Path) -> None:
    assert "must be a table" in refusal(tmp_path, "[metadata]\nharness = 1\n")


def test_turns_are_for_tasks_without_steps_and_conversation_and_carry_for_those_with_them(tmp_path: Path) -> None:
    steps = {"steps/one/instruction.md": "x", "steps/one/tests/test.sh": "x"}
    reason = load_task(
        make_task(tmp_path, toml="[[steps]]\nname = 'one'\n[metadata.harness]\nturns = ['x']\n", files=steps)
    )
    assert isinstance(reason, BrokenTask) and "metadata.harness.turns" in reason.reason
    single = load(tmp_path / "b", "[metadata.harness]\nconversation = 'continue'\ncarry = ['/memory']\n")
    assert [finding.key for finding in single.findings] == ["metadata.harness.conversation", "metadata.harness.carry"]


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "((ab*)c)+", "(?:x{2,})*", r"(a\)+)+", "([)]a+)+"])
def test_a_pattern_that_could_search_forever_is_refused(tmp_path: Path, pattern: str) -> None:
    toml = f"[metadata.harness.user]\nanswers = [{{when = '{pattern}', say = 'x'}}]\n"
    assert "can take forever" in refusal(tmp_path, toml)


@pytest.mark.parametrize(
    "pattern", ["(?i)which (folder|directory)s?", "(ab)+", r"\(a+\)+", "[(+|]+", "(a|b).*c", "a{2}"]
)
def test_an_ordinary_pattern_is_not(tmp_path: Path, pattern: str) -> None:
    toml = f"[metadata.harness.user]\nanswers = [{{when = '{pattern}', say = 'x'}}]\n"
    user = load(tmp_path, toml).interaction.user
    assert user is not None and user.answers[0].when.pattern == pattern


@pytest.mark.parametrize(("pattern", "n"), [("abc|d", 0), (r"\*a+b{3}", 1), ("[*+]a*b+?", 2), ("a.*b.*c{1,}", 3)])
def test_the_more_a_pattern_repeats_the_less_of_a_question_it_is_searched_in(pattern: str, n: int) -> None:
    answer = Answer(when=re.compile(f"{pattern}|!"), say="x")
    assert answer.fits(" " * (REACH[n] - 1) + "!", None)
    assert not answer.fits(" " * REACH[n] + "!", None)


def test_the_worst_question_to_a_pattern_of_three_repeats_costs_seconds() -> None:
    answer = Answer(when=re.compile("a.*b.*c.*d"), say="x")
    started = time.process_time()
    assert not answer.fits("a" * 166 + "b" * 166 + "c" * 1_000_000, None)
    assert time.process_time() - started < 8


def test_a_pattern_of_more_repeats_is_refused(tmp_path: Path) -> None:
    toml = "[metadata.harness.user]\nanswers = [{when = 'a.*b.*c.*d.*e', say = 'x'}]\n"
    assert "has 4 repeats, and may have 3" in refusal(tmp_path, toml)
