"""Which conversation a request belongs to: the one whose latest request it begins with.

Clients spell what they send back in their own way: they trim texts, re-serialise arguments, move cache marks, leave
thoughts out. So messages are compared by what they say: role, text without the space around it, calls by name and
value, and the call that a result answers.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness import strict_json
from harness.atif.writer import TrajectoryWriter
from harness.llm.protocol import Message, Reply, ToolRequest

Json = Mapping[str, Any]

_REMEMBERED = 4
"""Conversations side by side whose histories are kept; those of others are read anew."""


def message_of(message: Json) -> Message:
    """A chat completion's message, its parts put together as text."""
    role = message.get("role")
    called = message.get("tool_calls")
    calls = [each for each in called if isinstance(each, Mapping)] if isinstance(called, list) else []
    return Message(
        role="assistant"
        if role == "assistant"
        else "tool"
        if role == "tool"
        else "user"
        if role == "user"
        else "system",
        content=text_of(message.get("content")),
        tool_calls=tuple(_request(call) for call in calls),
        tool_call_id=str(message["tool_call_id"]) if message.get("tool_call_id") is not None else None,
    )


def text_of(content: object) -> str:
    """The text of a message; what is no text leaves a mark in its place."""
    if content is None or isinstance(content, str):
        return strict_json.whole(content or "")
    if not isinstance(content, list | tuple):
        return strict_json.dumps(strict_json.clean(content)[0])
    return "\n".join(_part(part) for part in content)


def _part(part: object) -> str:
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return strict_json.whole(part["text"])
    if isinstance(part, Mapping):
        digest = hashlib.blake2b(json.dumps(part, sort_keys=True, default=str).encode(), digest_size=6).hexdigest()
        return f"[{part.get('type', 'part')} {digest}]"
    return str(part)


def _request(call: Json) -> ToolRequest:
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    arguments = function.get("arguments")
    return ToolRequest(
        id=str(call.get("id") or ""),
        name=str(function.get("name") or ""),
        arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
    )


def digest(message: Message) -> bytes:
    """What a message says, in 16 bytes."""
    calls = [[call.id, call.name, _value(call.arguments)] for call in message.tool_calls]
    said = [message.role, message.content.strip(), calls, message.tool_call_id]
    return hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).digest()


def reply_digest(reply: Reply) -> bytes:
    """What an answer says, as the message that it will come back as."""
    return digest(Message(role="assistant", content=reply.content, tool_calls=reply.tool_calls))


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments


@dataclass(frozen=True, slots=True)
class Said:
    """What a request says: its messages as they go upstream and as ours, and a link for each beginning of them."""

    bodies: Sequence[Json] = ()
    messages: Sequence[Message] = ()
    links: Sequence[bytes] = ()


def said_by(bodies: Sequence[Json], after: Said = Said()) -> Said:
    """What `after` says, and then the messages of a chat completion's body."""
    new = [message_of(each) for each in bodies]
    links = list(after.links)
    for message in new:
        links.append(hashlib.blake2b((links[-1] if links else b"") + digest(message), digest_size=16).digest())
    return Said([*after.bodies, *bodies], [*after.messages, *new], links)


class Listener:
    """Makes out what requests say, and reads only what none of the latest ones began with: histories grow."""

    def __init__(self, spelled: Callable[[Json], Json]) -> None:
        """`spelled` gives a message the spelling that it goes upstream in."""
        self._spelled = spelled
        self._heard: deque[tuple[Sequence[Json], Said]] = deque(maxlen=_REMEMBERED)

    def hear(self, messages: Sequence[Json]) -> Said:
        """What a request with these messages says."""
        asked, known, shared = max(
            ((asked, known, _shared(asked, messages)) for asked, known in self._heard),
            key=lambda each: each[2],
            default=((), Said(), 0),
        )
        before = Said(known.bodies[:shared], known.messages[:shared], known.links[:shared])
        said = said_by([self._spelled(each) for each in messages[shared:]], before)
        if shared and shared == len(asked):
            self._heard.remove((asked, known))
        self._heard.append(([*asked[:shared], *messages[shared:]], said))
        return said


def _shared(some: Sequence[Json], others: Sequence[Json]) -> int:
    """How many messages both begin with."""
    pairs = enumerate(zip(some, others, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(some), len(others)))


@dataclass(slots=True)
class Conversation:
    """One of a trial's conversations.

    Attributes:
        trajectory: where it is recorded.
        description: the beginning of what was asked for; None for the agent's own, which is the first.
        length, link: of its latest request. answers: how many it was given; spelled: the digest of the latest.
    """

    trajectory: TrajectoryWriter
    description: str | None = None
    length: int = 0
    link: bytes = b""
    answers: int = 0
    spelled: bytes = b""


@dataclass(slots=True)
class Conversations:
    """All conversations of a trial, by what their latest requests said."""

    by_link: dict[bytes, Conversation] = field(default_factory=dict)
    seen: dict[bytes, int] = field(default_factory=dict)
    """Every beginning that any request had, and its length: where a new conversation parted from the others."""

    def continued_by(self, links: Sequence[bytes]) -> Conversation | None:
        """The conversation that a request continues: its latest request is the longest beginning of this one."""
        return next((self.by_link[link] for link in reversed(links) if link in self.by_link), None)

    def shared(self, links: Sequence[bytes]) -> int:
        """How many messages a request begins with that an earlier one began with, too."""
        return next((self.seen[link] for link in reversed(links) if link in self.seen), 0)

    def moved(self, conversation: Conversation, links: Sequence[bytes]) -> None:
        """A request of the conversation was answered."""
        if self.by_link.get(conversation.link) is conversation:
            del self.by_link[conversation.link]
        conversation.length, conversation.link = len(links), links[-1]
        self.by_link[links[-1]] = conversation
        for length in range(len(links), 0, -1):
            if links[length - 1] in self.seen:
                break
            self.seen[links[length - 1]] = length
