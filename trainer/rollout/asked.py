"""OpenAI's requests, read and judged before anything is sampled.

What would change the distribution and is not done here is refused, not passed over; what is harmless is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from trainer.rollout.sampling import Sampling

_COMPLETION_TOKENS = 16
"""What OpenAI's completions sample when nothing is said."""


class Refused(Exception):
    """A request that gets an error for an answer."""

    def __init__(self, status: int, message: str, *, kind: str = "invalid_request_error", code: str | None = None):
        super().__init__(message)
        self.status, self.kind, self.code = status, kind, code

    def body(self) -> dict[str, Any]:
        """In OpenAI's form."""
        return {"error": {"message": str(self), "type": self.kind, "param": None, "code": self.code}}


class _Request(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    model: str = ""
    stream: bool = False
    stream_options: dict[str, Any] = Field(default_factory=dict)
    temperature: float = Field(default=1.0, ge=0, le=100)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=-1, ge=-1)
    """-1 and 0 are all tokens."""
    stop: list[str] = Field(default_factory=list, max_length=16)
    stop_token_ids: list[int] = Field(default_factory=list)
    ignore_eos: bool = False
    seed: int | None = None
    n: int = Field(default=1, ge=1, le=1)
    best_of: int = Field(default=1, ge=1, le=1)
    presence_penalty: float = Field(default=0, ge=0, le=0)
    frequency_penalty: float = Field(default=0, ge=0, le=0)
    repetition_penalty: float = Field(default=1, ge=1, le=1)
    min_p: float = Field(default=0, ge=0, le=0)
    min_tokens: int = Field(default=0, ge=0, le=0)
    logit_bias: dict[str, float] = Field(default_factory=dict, max_length=0)
    top_logprobs: int = Field(default=0, ge=0, le=0)

    @field_validator("stop", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("stop")
    @classmethod
    def _not_empty(cls, value: list[str]) -> list[str]:
        if not all(value):
            raise ValueError("a stop has at least one character")
        return value

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return bool(self.stream_options.get("include_usage"))

    def sampling(self, limit: int | None, room: int) -> Sampling:
        """How to sample, in a window with room for `room` tokens after the prompt."""
        return Sampling(
            max_tokens=room if limit is None else min(limit, room),
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k if self.top_k > 0 else None,
            stop=tuple(self.stop),
            seed=self.seed,
        )


class _Function(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    arguments: str | dict[str, Any] = "{}"


class _Call(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    function: _Function


class _Message(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None


class _ToolFunction(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class _Tool(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    function: _ToolFunction


class ChatRequest(_Request):
    """POST /v1/chat/completions."""

    messages: list[_Message] = Field(min_length=1)
    tools: list[_Tool] = Field(default_factory=list)
    tool_choice: str | dict[str, Any] = "auto"
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool = True

    @field_validator("tool_choice")
    @classmethod
    def _free(cls, value: object) -> object:
        if value not in ("auto", "none"):
            raise ValueError("the model can be left free to call or not ('auto'), or given no tools ('none')")
        return value

    @property
    def limit(self) -> int | None:
        """Tokens of the answer."""
        return self.max_completion_tokens or self.max_tokens

    def conversation(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The messages and the tools, as the chat template is told them."""
        messages = [each.model_dump(exclude_none=True) for each in self.messages]
        return messages, [] if self.tool_choice == "none" else [each.model_dump() for each in self.tools]


class CompletionRequest(_Request):
    """POST /v1/completions: one prompt, as text or as tokens."""

    prompt: str | list[int] | list[str] | list[list[int]]
    max_tokens: int = Field(default=_COMPLETION_TOKENS, ge=1)
    logprobs: int = Field(default=0, ge=0, le=1)
    echo: bool = False

    @field_validator("prompt")
    @classmethod
    def _one(cls, value: Any) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], str | list):
            if len(value) > 1:
                raise ValueError("one prompt a request")
            return value[0]
        return value

    @field_validator("echo")
    @classmethod
    def _silent(cls, value: bool) -> bool:
        if value:
            raise ValueError("the prompt is not repeated in the answer")
        return value

    @property
    def limit(self) -> int | None:
        """Tokens of the answer."""
        return self.max_tokens


def parse(body: bytes) -> dict[str, Any]:
    """A request's body. Raises Refused for what is no JSON object."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "the request's body is not JSON") from error
    if not isinstance(parsed, dict):
        raise Refused(400, "the request's body is no JSON object")
    return parsed


def chat_request(body: Mapping[str, Any]) -> ChatRequest:
    """Raises Refused, with what is wrong first."""
    try:
        return ChatRequest.model_validate(_told(body))
    except ValidationError as error:
        raise _refused(error) from error


def completion_request(body: Mapping[str, Any]) -> CompletionRequest:
    """Raises Refused, with what is wrong first."""
    try:
        return CompletionRequest.model_validate(_told(body))
    except ValidationError as error:
        raise _refused(error) from error


def _told(body: Mapping[str, Any]) -> dict[str, Any]:
    """Null is what was not said."""
    return {key: value for key, value in body.items() if value is not None}


def _refused(error: ValidationError) -> Refused:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(each) for each in first["loc"])
    return Refused(400, f"{where}: {first['msg'].removeprefix('Value error, ')}")
