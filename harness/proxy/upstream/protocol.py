"""What answers a chat completion: the one form in which the proxy asks, whatever the agent speaks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.llm.price import Price
from harness.llm.protocol import CallContext
from harness.proxy.conversation import Said

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request, as a chat completion's body.

    Attributes:
        said: what its messages say.
        body: messages, tools and sampling parameters; whatever the agent's dialect shares with this one is as it was.
        stream: whether the answer is wanted in chunks.
        context: whose call it is, and how much time it has.
        affinity: requests of the same one go to the same upstream, whose prefix cache knows them.
    """

    said: Said
    body: Json
    stream: bool
    context: CallContext
    affinity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The beginning of an answer: whole in `body`, or else in `chunks` that are still to come.

    `chunks` raise ModelError when the stream breaks before its end.
    """

    body: Json | None = None
    chunks: AsyncIterator[Json] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    price: Price | None = None
    retries: int = 0


class Upstream(Protocol):
    """One source of answers, shared by all trials of a run."""

    @property
    def name(self) -> str:
        """The model's name in records."""

    @property
    def sampling(self) -> Mapping[str, Any]:
        """Sampling parameters that it sets itself, and `logprobs_mode` where it is known (see SampledCall)."""

    def ask(self, question: Question) -> AbstractAsyncContextManager[Answer]:
        """Ask, with as many retries as its policy and the call's time allow; none once an answer has begun.

        Leaving the context abandons what has not arrived. Raises ContextOverflow, and ModelError by subclass.
        """

    async def close(self) -> None:
        """Release connections."""
