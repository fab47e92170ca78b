"""Prompts that hold what the model wrote token for token.

A chat comes back as text, and a template that writes an answer anew may spell it otherwise than it was sampled: then
the next turn would not extend the last one, and its beginning would have to be read, and trained, again. So the tokens
of answers are kept by the conversation that they end, and only what follows is tokenized.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from trainer.rollout.dialect import Dialect

Json = Mapping[str, Any]


class Turns:
    """See the module. `room` is in tokens; the least recently used conversations go first."""

    def __init__(self, dialect: Dialect, ends: frozenset[int], room: int = 4 << 20) -> None:
        """`ends` are the tokens that end an answer."""
        self._dialect = dialect
        self._ends = ends
        self._room = room
        self._held: OrderedDict[bytes, array[int]] = OrderedDict()
        self._tokens = 0

    def prompt(self, messages: Sequence[Json], tools: Sequence[Json]) -> list[int]:
        """The tokens of a conversation, up to where the model answers. Raises Unwritable."""
        written = self._dialect.write(messages, tools, answer=True)
        keys = _keys(messages, tools)
        for count in range(len(messages), 0, -1):
            if messages[count - 1].get("role") == "assistant" and (held := self._held.get(keys[count - 1])) is not None:
                self._held.move_to_end(keys[count - 1])
                rest = self._rest(written, self._dialect.write(messages[:count], tools, answer=False), held[-1])
                if rest is not None:
                    return [*held, *self._dialect.encode(rest)]
                break
        return self._dialect.encode(written)

    def remember(self, messages: Sequence[Json], tools: Sequence[Json], answer: Json, tokens: array[int]) -> None:
        """An answer was sampled: `tokens` are the prompt's and its own. It may have been cut."""
        key = _keys([*messages, answer], tools)[-1]
        old = self._held.pop(key, None)
        self._tokens += len(tokens) - (len(old) if old is not None else 0)
        self._held[key] = tokens
        while self._tokens > self._room:
            self._tokens -= len(self._held.popitem(last=False)[1])

    def _rest(self, whole: str, before: str, last: int) -> str | None:
        """What the template writes behind what was sampled last; None where that cannot be told.

        An answer that was cut gets the end that the template gives it.
        """
        ended = last in self._ends
        mark = self._dialect.piece(last) if ended else self._dialect.end
        place = before.rfind(mark)
        if not mark or place < 0 or before[place + len(mark) :].strip() or not whole.startswith(before[:place]):
            return None
        if not whole.startswith(mark, place):
            return None
        return whole[place + len(mark) if ended else place :]


def _keys(messages: Sequence[Json], tools: Sequence[Json]) -> list[bytes]:
    """A digest of each beginning of the conversation."""
    digest = hashlib.sha256(json.dumps(list(tools), sort_keys=True).encode())
    keys: list[bytes] = []
    for message in messages:
        calls = [
            [call["function"].get("name"), call["function"].get("arguments")]
            for call in message.get("tool_calls") or ()
        ]
        told = [message.get("role"), message.get("content") or "", calls]
        digest.update(json.dumps(told, sort_keys=True).encode())
        keys.append(digest.digest())
    return keys
