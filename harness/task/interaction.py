"""What a task says of the talk with its agent, beyond the instructions: `[metadata.harness]` of task.toml.

Harbor's format has no word for it and ignores it, so such a task still loads there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

REACH = (20_000, 4_000, 1_000, 500)
"""Characters of a question that a pattern with 0, 1, 2 or 3 repeats is searched in. A search can cost the length to the
power of one more than the repeats, and nothing else runs meanwhile; so this is a second or two at most."""


def plain(pattern: str) -> str:
    """A pattern with an x for whatever is escaped or stands in brackets, so that its operators can be told."""
    return re.sub(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", "x", pattern, flags=re.DOTALL)


def repeats(pattern: str) -> int:
    """How many `*`, `+` and `{m,n}` a pattern has."""
    return len(re.findall(r"[*+]|\{\d*,", plain(pattern)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One thing that the simulated user knows.

    Attributes:
        when: searched in the question's beginning (`REACH`).
        say: the answer.
        once: it is used up after it was given.
        step: only in the step of that name; None is in all of them.
    """

    when: re.Pattern[str]
    say: str
    once: bool = False
    step: str | None = None

    def fits(self, question: str, step: str | None) -> bool:
        """Whether this answers a question that is asked in a step."""
        return self.step in (None, step) and self.when.search(question[: self._reach]) is not None

    @property
    def _reach(self) -> int:
        return REACH[min(repeats(self.when.pattern), len(REACH) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScript:
    """A simulated user: of the answers that fit, the first is given; `default` where none does.

    Beyond `max_questions` the user only says `default`.
    """

    answers: tuple[Answer, ...] = ()
    default: str = "I can't help with that."
    max_questions: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """How a task wants its agent to be talked to.

    Attributes:
        system_prompt: standing instructions, which end the agent's own system prompt.
        memory_dir: an absolute folder of the sandbox that serves as the agent's memory.
        skills_dir: a folder of the sandbox with a folder for each skill, a SKILL.md in each.
        conversation: whether every step starts a fresh conversation, or continues that of the step before it.
        carry: files and folders that go along from step to step, each of which has a sandbox of its own; None leaves
            all steps the same one.
        turns: what the user says next, one after another, each time the agent finishes.
        user: who answers the agent's questions; None is nobody.
    """

    system_prompt: str | None = None
    memory_dir: str | None = None
    skills_dir: str | None = None
    conversation: Literal["reset", "continue"] = "reset"
    carry: tuple[str, ...] | None = None
    turns: tuple[str, ...] = ()
    user: UserScript | None = None
