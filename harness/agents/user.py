"""The simulated user of a task: who answers the agent's questions, and what was asked and said.

The agent has no hand in this record, so a verifier can rely on it. The script decides what is said; or a model does,
which is told what the script knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

from harness.records import AgentUsage, Exchange, UserRecord
from harness.task.interaction import Answer, UserScript

MAX_TEXT = 4000
"""Characters of a question that are kept."""

MAX_EXCHANGES = 200
"""Exchanges that are kept; all of them are counted."""


class Speaker(Protocol):
    """Puts a user's answer into words of its own."""

    async def answer(self, question: str, known: list[Answer], default: str) -> str:
        """The answer of a user who knows `known`; `default` where that does not tell. Raises ModelError."""

    def usage(self) -> AgentUsage:
        """What its answers cost so far."""


class User:
    """The user of one trial."""

    def __init__(
        self, script: UserScript, *, redact: Callable[[str], str] = str, speaker: Speaker | None = None
    ) -> None:
        self._script = script
        self._redact = redact
        self._speaker = speaker
        self._used: set[int] = set()
        self._exchanges: list[Exchange] = []
        self._questions = self._answered = 0

    async def ask(self, question: str, step: str | None) -> str:
        """What the user says to a question of the agent's in a step. Raises ModelError where a model speaks."""
        self._questions += 1
        answer = self._script.default
        if self._questions <= self._script.max_questions:
            answer = await (self._spoken if self._speaker else self._scripted)(question, step)
        matched = answer != self._script.default
        self._answered += matched
        if len(self._exchanges) < MAX_EXCHANGES:
            self._exchanges.append(
                Exchange(
                    step=step, question=self._redact(question[:MAX_TEXT]), answer=self._redact(answer), matched=matched
                )
            )
        return answer

    def record(self) -> UserRecord:
        """For the trial's record."""
        return UserRecord(
            questions=self._questions,
            answered=self._answered,
            exchanges=list(self._exchanges),
            usage=self._speaker.usage() if self._speaker else None,
        )

    def document(self) -> bytes:
        """What the verifier is given as user.json."""
        shown = self.record().model_dump(include={"questions", "answered", "exchanges"})
        return (json.dumps(shown, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")

    async def _scripted(self, question: str, step: str | None) -> str:
        for number, answer in self._left(step):
            if answer.fits(question, step):
                self._use(number, answer)
                return answer.say
        return self._script.default

    async def _spoken(self, question: str, step: str | None) -> str:
        assert self._speaker is not None
        left = self._left(step)
        said = await self._speaker.answer(question, [answer for _, answer in left], self._script.default)
        for number, answer in left:
            if answer.once and answer.say in said:
                self._use(number, answer)
        return said

    def _left(self, step: str | None) -> list[tuple[int, Answer]]:
        """The answers that can still be given in this step."""
        return [
            (number, answer)
            for number, answer in enumerate(self._script.answers)
            if number not in self._used and answer.step in (None, step)
        ]

    def _use(self, number: int, answer: Answer) -> None:
        if answer.once:
            self._used.add(number)
