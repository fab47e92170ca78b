"""What a task says of the talk with its agent, beyond the instructions: `[metadata.harness]` of task.toml.

Harbor's format has no word for it and ignores it, so such a task still loads there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

MAX_QUESTION = 1000
"""Characters of a question that a pattern is searched in: what it may cost grows with a power of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One thing that the simulated user knows.

    Attributes:
        when: searched in the question.
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
        return self.step in (None, step) and self.when.search(question[:MAX_QUESTION]) is not None


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
        turns: what the user says next, one after another, each time the agent finishes.
        user: who answers the agent's questions; None is nobody.
    """

    system_prompt: str | None = None
    memory_dir: str | None = None
    skills_dir: str | None = None
    conversation: Literal["reset", "continue"] = "reset"
    turns: tuple[str, ...] = ()
    user: UserScript | None = None
