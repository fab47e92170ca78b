"""One request of an agent, from its body to its answer's last byte."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from harness.errors import ModelError, ModelRejected
from harness.failures import AgentStop
from harness.llm import wire
from harness.llm.protocol import CallContext, ContextOverflow, Reply
from harness.proxy.conversation import said_by
from harness.proxy.dialects.protocol import Dialect, Json, Kind, Trouble
from harness.proxy.lease import Lease
from harness.proxy.tape import NotOnTape
from harness.proxy.upstream.protocol import Answer, Question, Upstream

FOREVER = 86400.0
"""Seconds that stand for no limit: timers want a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an agent asks.

    Attributes:
        body: parsed. client: how the program calls itself.
    """

    dialect: Dialect
    body: Json
    client: str

    @property
    def stream(self) -> bool:
        """Whether the answer is wanted in pieces."""
        return self.body.get("stream") is True


class Exchange:
    """Asks the upstream, tells the answer in the agent's dialect, and records it."""

    def __init__(self, lease: Lease, request: Request, upstream: Upstream) -> None:
        self._lease = lease
        self._request = request
        self._upstream = upstream
        self._started = time.monotonic()
        self._started_at = datetime.now(UTC)

    @asynccontextmanager
    async def answer(self) -> AsyncIterator[dict[str, Any] | AsyncIterator[bytes]]:
        """The whole answer's body, or the pieces of a stream. Raises Trouble for what the agent has to be told."""
        lease, request = self._lease, self._request
        self._refuse_if_ended()
        question = self._question()
        lease.account.take()
        answered = lease.account.answers
        try:
            async with self._asked(question) as answer:
                if request.stream:
                    yield self._pieces(answer, question)
                else:
                    assert answer.body is not None
                    reply = self._taken(wire.reply_from(answer.body, answer.price, answer.headers), answer, question)
                    yield request.dialect.answer(answer.body, reply, request.body)
        finally:
            if lease.account.answers == answered:
                lease.account.give_back()

    def _refuse_if_ended(self) -> None:
        lease = self._lease
        if not lease.ended.is_set() and (over := lease.account.exceeded()):
            lease.end(*over)
        if lease.ended.is_set():
            raise Trouble(Kind.ENDED, _farewell(lease))

    def _question(self) -> Question:
        lease = self._lease
        body = self._request.dialect.question(self._request.body)
        body["messages"] = lease.recorder.as_sampled(body["messages"])
        said = said_by(body["messages"])
        turn, subagent = lease.recorder.expected(said)
        context = CallContext(
            task_name=lease.trial.task_name,
            step=lease.trial.step,
            subagent=subagent,
            turn=turn,
            seed=lease.trial.seed,
            time_left=min(FOREVER, max(0.0, lease.account.time_left())),
        )
        return Question(said=said, body=body, stream=self._request.stream, context=context, affinity=lease.name)

    @asynccontextmanager
    async def _asked(self, question: Question) -> AsyncIterator[Answer]:
        """The upstream's failures as troubles, and as evidence where they are not the agent's doing."""
        lease = self._lease
        try:
            async with self._upstream.ask(question) as answer:
                yield answer
        except ContextOverflow as error:
            lease.overflowed = True
            raise Trouble(Kind.OVERFLOW, str(error)) from error
        except NotOnTape as error:
            raise Trouble(Kind.NOT_FOUND, str(error)) from error
        except ModelRejected as error:
            lease.trouble = error
            raise Trouble(Kind.REJECTED, str(error)) from error
        except ModelError as error:
            if lease.account.time_left() <= 0:
                lease.end(*(lease.account.exceeded() or (AgentStop.TIMEOUT, "no time left")))
            else:
                lease.fail(error)
            raise Trouble(Kind.ENDED, _farewell(lease)) from error

    async def _pieces(self, answer: Answer, question: Question) -> AsyncIterator[bytes]:
        """Never raises Trouble: what goes wrong from here on is told within the stream."""
        stream = self._request.dialect.stream(self._request.body)
        whole = wire.StreamedReply(answer.headers)
        try:
            async for chunk in _chunks(answer):
                whole.add(chunk)
                yield stream.feed(chunk)
        except ModelError as error:
            self._lease.trouble = error
            yield stream.fail(Trouble(Kind.INTERRUPTED, str(error)))
            return
        yield stream.finish(self._taken(whole.reply(answer.price), answer, question))

    def _taken(self, reply: Reply, answer: Answer, question: Question) -> Reply:
        """Count an answer and put it on record."""
        lease = self._lease
        reply = replace(
            reply,
            retries=answer.retries,
            started_at=self._started_at,
            duration_sec=time.monotonic() - self._started,
            model=reply.model or self._upstream.name or None,
        )
        lease.account.add(reply)
        lease.trouble = None
        lease.recorder.answered(
            question.said,
            question.body,
            reply,
            sampling=self._upstream.sampling,
            extra={"dialect": self._request.dialect.name, "request": lease.account.answers},
            client=self._request.client,
        )
        return reply


async def _chunks(answer: Answer) -> AsyncIterator[Mapping[str, Any]]:
    if answer.chunks is not None:
        async for chunk in answer.chunks:
            yield chunk
    else:
        assert answer.body is not None
        for chunk in wire.chunks_of(answer.body):
            yield chunk


def _farewell(lease: Lease) -> str:
    if lease.detail is not None:
        return f"the budget of this run is spent ({lease.detail}); no request will be answered any more"
    if lease.failure is not None:
        return "the model's endpoint failed; no request will be answered any more"
    return "this run is over; no request will be answered any more"
