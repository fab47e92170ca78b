"""`[metadata.harness]` as its author wrote it, and the `Interaction` that it means."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from harness.errors import TaskInvalid
from harness.task.config import AbsolutePath, Table, TaskConfig, Text, first_error
from harness.task.interaction import REACH, Answer, Interaction, UserScript, plain, repeats
from harness.task.model import Finding

PLACE = "metadata.harness"


def _pattern(text: str) -> str:
    """Nested repeats can cost a search the exponential of the question's length, which no bound on it would help."""
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    if _repeats_a_repeat(text):
        raise ValueError("repeats a group that itself repeats or has alternatives, which can take forever to search")
    if repeats(text) >= len(REACH):
        raise ValueError(f"has {repeats(text)} repeats, and may have {len(REACH) - 1}: such a search can take minutes")
    return text


def _repeats_a_repeat(pattern: str) -> bool:
    """Whether a group that holds a repeat or a `|` is followed by `*`, `+` or `{`: told by its text, and strictly."""
    text = plain(pattern)
    groups: list[bool] = []
    for position, char in enumerate(text):
        if char == "(":
            groups.append(False)
        elif char == ")" and groups:
            risky = groups.pop()
            repeated = text[position + 1 : position + 2] in ("*", "+", "{")
            if risky and repeated:
                return True
            if groups:
                groups[-1] |= risky or repeated
        elif groups and char in "*+{|":
            groups[-1] = True
    return False


Place = Annotated[AbsolutePath, Field(pattern=r"^(/[\w.-]*[\w-])+/?$")]


class AnswerTable(Table):
    """One of `[[metadata.harness.user.answers]]`."""

    when: Annotated[Text, Field(max_length=2000), AfterValidator(_pattern)]
    say: str
    once: bool = False
    step: Text | None = None


class UserTable(Table):
    """`[metadata.harness.user]`."""

    default: str = UserScript().default
    max_questions: Annotated[int, Field(ge=0)] = UserScript().max_questions
    answers: list[AnswerTable] = Field(default_factory=list)


class HarnessTable(Table):
    """`[metadata.harness]`."""

    system_prompt: Text | None = None
    memory_dir: Place | None = None
    conversation: Literal["reset", "continue"] = "reset"
    carry: list[Place] | None = None
    turns: list[Text] = Field(default_factory=list)
    user: UserTable | None = None


def parse_interaction(config: TaskConfig) -> Interaction:
    """What the task asks for. Raises TaskInvalid naming the first wrong key."""
    raw = config.metadata.get("harness", {})
    if not isinstance(raw, dict):
        raise TaskInvalid(f"task.toml: {PLACE}: must be a table, written [{PLACE}]")
    try:
        table = HarnessTable.model_validate(raw)
    except ValidationError as error:
        raise TaskInvalid(first_error(error, PLACE)) from None
    if table.turns and config.steps:
        raise TaskInvalid(
            f"task.toml: {PLACE}.turns: a task with [[steps]] has its instructions there; use one of them"
        )
    return Interaction(
        system_prompt=table.system_prompt,
        memory_dir=None if table.memory_dir is None else _plain(table.memory_dir),
        skills_dir=config.environment.skills_dir or None,
        conversation=table.conversation,
        carry=None if table.carry is None else tuple(map(_plain, table.carry)),
        turns=tuple(table.turns),
        user=None if table.user is None else _user(table.user, {step.name for step in config.steps}),
    )


def interaction_findings(config: TaskConfig) -> list[Finding]:
    """What loads, but means nothing here."""
    raw: Any = config.metadata.get("harness", {})
    if config.steps:
        return []
    message = "means nothing in a task without [[steps]]"
    return [
        Finding(path="task.toml", key=f"{PLACE}.{key}", message=message)
        for key in ("conversation", "carry")
        if key in raw
    ]


def _plain(place: str) -> str:
    return "/" + place.strip("/")


def _user(table: UserTable, steps: set[str]) -> UserScript:
    for number, answer in enumerate(table.answers):
        if answer.step is not None and answer.step not in steps:
            raise TaskInvalid(f"task.toml: {PLACE}.user.answers.{number}.step: there is no step {answer.step[:60]!r}")
    answers = (
        Answer(when=re.compile(each.when), say=each.say, once=each.once, step=each.step) for each in table.answers
    )
    return UserScript(answers=tuple(answers), default=table.default, max_questions=table.max_questions)
