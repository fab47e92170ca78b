"""What a dialect is, and the troubles that each of them has words for.

Translations are pure: the same answer becomes the same bytes, ids included, so that a replayed answer is the recorded
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from harness import strict_json
from harness.llm.protocol import Reply, ToolRequest

Json = Mapping[str, Any]

UNPARSED = "__unparsed_arguments"
"""Stands for a call's arguments that are no JSON object: no tool accepts it, so nothing runs with half of them."""


class Kind(Enum):
    """What can go wrong, as the agent is told it."""

    UNAUTHORIZED = "unauthorized"
    MALFORMED = "malformed"
    NOT_FOUND = "not_found"
    TOO_LARGE = "too_large"
    OVERFLOW = "overflow"
    REJECTED = "rejected"
    """By the model's endpoint: another request may do better."""
    INTERRUPTED = "interrupted"
    """The answer broke off: the same request may do better."""
    ENDED = "ended"
    """A budget is spent, or the endpoint failed for good: nothing will be answered any more."""


@dataclass(frozen=True, slots=True)
class Trouble(Exception):
    """What to tell the agent. The message holds no path, no traceback and no secret."""

    kind: Kind
    message: str


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error in a dialect's own form."""

    status: int
    body: dict[str, Any]


class Stream(Protocol):
    """One answer as server-sent events."""

    def feed(self, chunk: Json) -> bytes:
        """The events that a chunk of a chat completion gives rise to."""

    def finish(self, reply: Reply) -> bytes:
        """The last events; `reply` is all that was fed."""

    def fail(self, trouble: Trouble) -> bytes:
        """The end of a stream that broke off."""


class Dialect(Protocol):
    """One API that agents speak."""

    @property
    def name(self) -> str:
        """Its name in records."""

    def question(self, body: Json) -> dict[str, Any]:
        """The chat completion's body, without `stream`. Raises Trouble for what is no request of this API."""

    def answer(self, completion: Json, reply: Reply, asked: Json) -> dict[str, Any]:
        """A whole answer; `asked` is the request's body."""

    def stream(self, asked: Json) -> Stream:
        """A streamed answer to `asked`."""

    def error(self, trouble: Trouble) -> ErrorAnswer:
        """An error that reaches the agent instead of an answer."""


def event(data: Json | str, name: str | None = None) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else strict_json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


KEEP_ALIVE = b": waiting\n\n"
"""A comment: the client drops it, and knows that the answer still grows."""


def mapping(value: object) -> Json:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: object) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return list(value) if isinstance(value, list | tuple) else []


def plain(parts: list[dict[str, Any]]) -> Any:
    """Text where there is nothing but text: many chat templates know no lists."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def delta_text(chunk: Json) -> tuple[str, str]:
    """What a chunk adds to the text, and to the reasoning."""
    delta = mapping(mapping(next(iter(sequence(chunk.get("choices"))), None)).get("delta"))
    text, thought = delta.get("content"), delta.get("reasoning_content") or delta.get("reasoning")
    return (text if isinstance(text, str) else "", thought if isinstance(thought, str) else "")


def token(completion_id: object, prefix: str) -> str:
    """An id of this dialect's own, made from the completion's."""
    text = "".join(char for char in str(completion_id or "0") if char.isalnum() or char in "_-")
    return f"{prefix}_{text.removeprefix('chatcmpl-')[:60]}"


def arguments_of(call: ToolRequest) -> dict[str, Any]:
    """A call's arguments for an API that tells them as an object."""
    try:
        value = strict_json.loads(call.arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {UNPARSED: call.arguments[:800]}
