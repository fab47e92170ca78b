"""A trial's access to the models: its address, its key, what it may spend, and how it ended."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import ModelError
from harness.failures import AgentStop
from harness.proxy.budget import Account
from harness.proxy.recorder import Recorder

if TYPE_CHECKING:
    from harness.proxy.app import App

KEY_PREFIX = "sk-harness-"
"""A shape that every redactor knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Whose lease it is. A scripted model finds its replies by task and step; the endpoint may be sent the seed."""

    task_name: str
    step: str | None = None
    seed: int = 0


class Lease:
    """What `ModelProxy.open` gives.

    Attributes:
        key: the API key. It is a secret: pass it by environment, never by argument.
        stop, detail: the limit that ended the model's answers, and a line about it; None while there is none.
        failure: what ended the model's answers without the agent's doing: the failure of the model's endpoint after all
            retries (ModelError), of the record (OSError), or of the sandbox that the requests come from (SandboxError).
        trouble: what went wrong with the latest request: the endpoint rejected it, or the stream broke off. The agent
            was told and may have gone on; an agent that gave up right after it did so for this reason.
        overflowed: a request was longer than the model's window. The agent was told, and may have made room.
        ended: set by `stop`, `failure` and `close`: no request will be answered any more. Whoever runs the agent gives
            it a moment to end by itself, and then ends it.
    """

    def __init__(
        self,
        trial: Trial,
        root_url: str,
        account: Account,
        recorder: Recorder,
        closing: Callable[[Lease], None],
        *,
        app: App | None = None,
    ) -> None:
        self.app = app
        self.trial = trial
        self.key = KEY_PREFIX + secrets.token_hex(24)
        self.name = secrets.token_hex(6)
        self.account = account
        self.recorder = recorder
        recorder.failed = self.fail
        self.stop: AgentStop | None = None
        self.detail: str | None = None
        self.failure: Exception | None = None
        self.trouble: ModelError | None = None
        self.overflowed = False
        self.ended = asyncio.Event()
        self.in_flight: set[asyncio.Task[None]] = set()
        self._root_url = root_url
        self._closing = closing
        self._closed = False

    @property
    def anthropic_base_url(self) -> str:
        """For clients that add "/v1/messages" themselves, e.g. as ANTHROPIC_BASE_URL."""
        return f"{self._root_url}/{self.name}"

    @property
    def google_base_url(self) -> str:
        """For clients that add "/v1beta/models/..." themselves, e.g. as GOOGLE_GEMINI_BASE_URL."""
        return self.anthropic_base_url

    @property
    def openai_base_url(self) -> str:
        """For clients that add "/chat/completions" or "/responses" themselves, e.g. as OPENAI_BASE_URL."""
        return f"{self.anthropic_base_url}/v1"

    @property
    def answers(self) -> int:
        """How many answers of the model the agent was given."""
        return self.account.answers

    @property
    def closed(self) -> bool:
        """Whether the key opens nothing any more."""
        return self._closed

    def end(self, stop: AgentStop, detail: str) -> None:
        """A limit was met: from now on every request is refused. The first reason stays."""
        if not self.ended.is_set():
            self.stop, self.detail = stop, detail
            self.ended.set()
            with suppress(OSError):
                self.recorder.event(f"no further answers: {detail}", {"event": "budget_spent", "stop": stop.value})

    def fail(self, error: Exception) -> None:
        """The endpoint, the record or the sandbox failed for good: every request is refused. The first reason stays."""
        if not self.ended.is_set():
            self.failure = error
            self.ended.set()
            with suppress(OSError):
                self.recorder.event(
                    f"no further answers: {error}", {"event": "model_failed", "error": type(error).__name__}
                )

    def raise_failure(self) -> None:
        """Raise `failure`, if there was one."""
        if self.failure is not None:
            raise self.failure

    async def close(self) -> None:
        """Revoke the key, abandon what is in flight, and finish the record. Idempotent.

        The trajectory and rollout writers stay open: they belong to whoever opened them.
        """
        if self._closed:
            return
        self._closed = True
        self._closing(self)
        self.ended.set()
        for task in list(self.in_flight):
            task.cancel()
        await asyncio.gather(*self.in_flight, return_exceptions=True)
        try:
            await self.recorder.close()
        except OSError as error:
            self.failure = self.failure or error
