"""A chat model of this process as an upstream: a script drives real agents, without network, chance or key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from harness.llm import wire
from harness.llm.protocol import ChatModel
from harness.proxy.upstream.protocol import Answer, Question


class ModelUpstream:
    """An Upstream. It gives whole answers, also to those who asked for a stream."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._answers = 0

    @property
    def name(self) -> str:
        """The model's."""
        return self._model.name

    @property
    def sampling(self) -> Mapping[str, Any]:
        """The model's."""
        return self._model.sampling

    @asynccontextmanager
    async def ask(self, question: Question) -> AsyncIterator[Answer]:
        """Ask the model, which does its own retries."""
        body = question.body
        reply = await self._model.complete(
            question.said.messages,
            [wire.schema_from(each) for each in body.get("tools") or ()],
            question.context,
        )
        self._answers += 1
        made = wire.body_from(reply, completion_id=f"{question.affinity}-{self._answers}", model=self.name)
        made["created"] = int(datetime.now(UTC).timestamp())
        yield Answer(body=made, retries=reply.retries)

    async def close(self) -> None:
        """The model belongs to whoever made it."""
