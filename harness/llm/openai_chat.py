"""Any endpoint that speaks OpenAI's chat completions, through the `openai` SDK, with retries of our own.

The SDK's retries are off: ours obey the time that the run has left, and tell the record how many there were.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from harness import errors
from harness.llm import classify, wire
from harness.llm.price import Price
from harness.llm.protocol import CallContext, Message, Reply, ToolSchema
from harness.llm.retry import RequestFailed, RetryPolicy, retry_after, retrying
from harness.redaction import Redactor

if TYPE_CHECKING:
    from openai import AsyncOpenAI


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a model is served and how it is asked.

    Attributes:
        model: the model's name at the endpoint.
        base_url: None is OpenAI's own.
        api_key: stays out of every repr.
        parameters: sampling parameters, sent as they are; those that the SDK does not know travel in the body.
        request_timeout_sec: for one request, from the first byte sent to the last one received.
        stream: ask for a stream; a broken connection is then noticed while the model still writes.
        capture: ask for log-probabilities and token ids, in the words of vLLM and of SGLang.
        logprobs_mode: "raw" (before temperature) or "processed" (after it), where the server's setting is known.
        send_seed: send the run's seed; not every endpoint accepts one.
        price: None where it is not known.
        retry: when to ask again.
    """

    model: str
    base_url: str | None = None
    api_key: str = field(default="", repr=False)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    request_timeout_sec: float = 600.0
    stream: bool = False
    capture: bool = False
    logprobs_mode: str | None = None
    send_seed: bool = False
    price: Price | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)


class OpenAIChat:
    """A ChatModel. `clock`, `sleep` and `chance` are there to be replaced in tests."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._redact = Redactor([endpoint.api_key])
        self._client: AsyncOpenAI | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def name(self) -> str:
        """The model's name at the endpoint."""
        return self._endpoint.model

    @property
    def sampling(self) -> Mapping[str, Any]:
        """The parameters of every call."""
        mode = self._endpoint.logprobs_mode
        return self._endpoint.parameters if mode is None else {**self._endpoint.parameters, "logprobs_mode": mode}

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema], context: CallContext) -> Reply:
        """Answer, after as many retries as the policy and the run's time allow.

        Raises ContextOverflow, and ModelError by subclass. The last failure is what is raised.
        """
        request = self._request(messages, tools, context)

        async def once(retry: int) -> Reply:
            started, started_at = self._clock(), datetime.now(UTC)
            reply = await self._ask(request)
            return replace(reply, retries=retry, started_at=started_at, duration_sec=self._clock() - started)

        return await retrying(
            once,
            self._endpoint.retry,
            time_left=context.time_left,
            clock=self._clock,
            sleep=self._sleep,
            chance=self._chance,
        )

    async def close(self) -> None:
        """Release connections."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.close()

    def _request(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], context: CallContext
    ) -> dict[str, Any]:
        endpoint = self._endpoint
        body: dict[str, Any] = {**endpoint.parameters}
        # Here, and not as the SDK's own argument, whose every message it would take apart: milliseconds a call.
        body["messages"] = [wire.message_json(message) for message in messages]
        if tools:
            body["tools"] = [wire.tool_json(tool) for tool in tools]
        if endpoint.send_seed:
            body["seed"] = context.seed
        if endpoint.capture:
            body |= wire.CAPTURE
        if endpoint.stream:
            body["stream_options"] = {"include_usage": True}
        # Everything but what the SDK insists on travels in extra_body, so that no parameter depends on its version.
        return {
            "model": endpoint.model,
            "messages": [],
            "stream": endpoint.stream,
            "extra_body": body,
        }

    async def _ask(self, request: dict[str, Any]) -> Reply:
        """One request. Raises RequestFailed for whatever goes wrong."""
        import openai

        try:
            async with asyncio.timeout(self._endpoint.request_timeout_sec):
                response = await self._connected().chat.completions.with_raw_response.create(**request)
                answer: Any = response.parse()
                if self._endpoint.stream:
                    return await self._read_stream(answer, response.headers)
                if not isinstance(answer, openai.BaseModel):
                    raise _cut("the endpoint's answer is no chat completion")
                return wire.reply_from(answer.to_dict(warnings=False), self._endpoint.price, response.headers)
        except (openai.APITimeoutError, TimeoutError) as error:
            message = f"no answer within {self._endpoint.request_timeout_sec:g} s"
            raise RequestFailed(classify.Failure(errors.ModelTimeout(message), True)) from error
        except openai.APIStatusError as error:
            asked = retry_after(error.response.headers, datetime.now(UTC))
            raise RequestFailed(self._clean(classify.of_status(error.status_code, error.body)), asked) from error
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            raise _cut(f"the connection failed: {type(cause).__name__}") from error
        except openai.APIError as error:
            raise RequestFailed(self._clean(classify.of_stream_error(error.body or error.message))) from error
        except ValueError as error:
            raise _cut("the endpoint's answer is not JSON") from error

    async def _read_stream(self, chunks: Any, headers: Mapping[str, str]) -> Reply:
        reply = wire.StreamedReply(headers)
        async with chunks:
            async for chunk in _received(chunks):
                reply.add(chunk.to_dict(warnings=False))
        if not reply.complete:
            raise _cut("the stream was cut before its end")
        return reply.reply(self._endpoint.price)

    def _connected(self) -> AsyncOpenAI:
        """The client of the running event loop: connections cannot move from a loop that has ended to another."""
        import openai

        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop = loop
            self._client = openai.AsyncOpenAI(
                api_key=self._endpoint.api_key or "none",
                base_url=self._endpoint.base_url,
                max_retries=0,
                timeout=self._endpoint.request_timeout_sec,
            )
        return self._client

    def _clean(self, failure: classify.Failure) -> classify.Failure:
        """The same failure, its message without the key that some endpoints quote back."""
        error = failure.error
        return replace(failure, error=type(error)(self._redact(str(error))))


async def _received(chunks: AsyncIterable[Any]) -> AsyncIterator[Any]:
    """The chunks of a stream. Before its version 3 the SDK lets its HTTP library's own errors pass here."""
    import openai

    try:
        async for chunk in chunks:
            yield chunk
    except openai.OpenAIError:
        raise
    except Exception as error:  # whatever breaks the reading of a stream has cut it
        raise _cut(f"the stream was cut: {type(error).__name__}") from error


def _cut(message: str) -> RequestFailed:
    return RequestFailed(classify.Failure(errors.ModelUnavailable(message), True))
