"""What a chat model is: messages and tools in, one reply out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol


class ContextOverflow(Exception):
    """The conversation is longer than the model's window. It is the agent's own end, not the endpoint's failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """A call as the model wrote it: `arguments` is raw text, which may be cut, or no JSON at all."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of the conversation. `tool_call_id` is set on tool results only."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolRequest, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """A tool as the model is told of it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """Where in which run a call belongs.

    Attributes:
        task_name: the task that is worked on; step: the step of it, in a task that has several.
        subagent: the description of the sub-agent that asks; None is the agent itself.
        turn: model calls before this one in the same run.
        seed: the run's seed; a model may ignore it.
        time_left: seconds that the run still has; retries never wait beyond them.
    """

    task_name: str
    turn: int
    seed: int
    time_left: float
    step: str | None = None
    subagent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the model answered; None is what the endpoint did not tell.

    Attributes:
        content: the text, "" when there is none.
        reasoning: thoughts that the endpoint keeps apart from the text.
        tool_calls: the calls, each with an id of its own within this reply.
        finish_reason: the endpoint's own word, e.g. "stop", "tool_calls", "length".
        refusal: the model, or the endpoint's filter, declined to answer.
        prompt_tokens: input, `cached_tokens` included once; `completion_tokens`: output, reasoning included once.
        cost_usd: None when the price is not known.
        prompt_token_ids, completion_token_ids, logprobs: what was sampled, where it was asked for and given; a
            log-probability that is no number is NaN.
        policy_version: of the weights that sampled; `version_runs` is (version, tokens) where they changed on the way.
        engine: what served the answer, told by its form: "vllm", "sglang", "llama.cpp".
        started_at: when the answered request was sent.
        retries: failed requests before this answer.
        duration_sec: of the request that was answered.
    """

    content: str = ""
    reasoning: str | None = None
    tool_calls: tuple[ToolRequest, ...] = ()
    finish_reason: str | None = None
    refusal: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    policy_version: str | None = None
    version_runs: tuple[tuple[str, int], ...] | None = None
    engine: str | None = None
    started_at: datetime | None = None
    retries: int = 0
    duration_sec: float = 0.0

    @property
    def truncated(self) -> bool:
        """Whether the token limit cut the answer. It wins over tool calls: the last of them is then half a call."""
        return self.finish_reason == "length"


class ChatModel(Protocol):
    """One model, shared by all runs of a job."""

    @property
    def name(self) -> str:
        """The model's name in records."""

    @property
    def sampling(self) -> Mapping[str, Any]:
        """The sampling parameters of every call, and `logprobs_mode` where it is known (see SampledCall)."""

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema], context: CallContext) -> Reply:
        """Answer. Raises ContextOverflow, and ModelError by subclass once retrying is over."""

    async def close(self) -> None:
        """Release connections."""
