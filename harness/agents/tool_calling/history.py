"""The conversation as the model is shown it. Whatever happens, what is sent is a valid history.

It is a head (the instructions) and groups. A group is what belongs together: an answer with the results of all its
calls, or a word of ours to the model. Compaction removes whole groups only, so no result ever loses its call.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from harness.agents.tool_calling import prompt
from harness.agents.tool_calling.output import shorten
from harness.llm.protocol import Message

Group = tuple[Message, ...]


@dataclass(slots=True)
class History:
    """Grows at the end; `compact` shortens it at the beginning."""

    head: tuple[Message, ...]
    groups: list[Group] = field(default_factory=list)

    def messages(self) -> list[Message]:
        """All messages, in order; what the user says in a row is one message, since some endpoints insist on turns."""
        messages: list[Message] = []
        for message in (*self.head, *(message for group in self.groups for message in group)):
            if messages and message.role == messages[-1].role == "user":
                messages[-1] = replace(message, content=f"{messages[-1].content}\n\n{message.content}")
            else:
                messages.append(message)
        return messages

    def add(self, *group: Message) -> None:
        """Append one group: an answer, followed by the results of all its calls."""
        self.groups.append(group)

    def nudge(self, text: str) -> None:
        """Say something to the model, once: the same words are not repeated in a row."""
        word: Group = (Message(role="user", content=text),)
        if not self.groups or self.groups[-1] != word:
            self.groups.append(word)

    def compact(self, *, keep_messages: int, max_result_chars: int) -> bool:
        """Keep the last `keep_messages` messages, extended backwards to whole groups, and shorten results in them.

        Returns whether anything became shorter.
        """
        kept: list[Group] = []
        for group in reversed(self.groups):
            if kept and sum(map(len, kept)) >= keep_messages:
                break
            kept.insert(0, tuple(_shortened(message, max_result_chars) for message in group))
        changed = kept != self.groups
        if len(kept) < len(self.groups):
            kept.insert(0, (Message(role="user", content=prompt.COMPACTED),))
        self.groups = kept
        return changed


def _shortened(message: Message, limit: int) -> Message:
    return replace(message, content=shorten(message.content, limit)) if message.role == "tool" else message
