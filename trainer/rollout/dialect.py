"""A model's chat format: messages to tokens by its own template, and its text back to content and calls.

How calls are written is told by the template: `<tool_call>{"name": ..., "arguments": ...}</tool_call>` (Hermes, Qwen
and alike), or the line form of the `tiny` model.

Only the template writes special tokens; what a message spells of them stays text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError
from harness.export.spelled import Cutter, encode_cut
from harness.export.template import for_template, parsed_arguments
from trainer.policy.tiny import CALL

Json = Mapping[str, Any]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What OpenAI lets a tool be called; clients rewrite anything else, and with it the history."""
_HERMES = "<tool_call>"
_HERMES_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)


class Unwritable(Exception):
    """The template refuses these messages."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the model wrote it; `arguments` is JSON text, if the model wrote JSON."""

    name: str
    arguments: str


class Dialect:
    """One tokenizer's."""

    def __init__(self, tokenizer: Any) -> None:
        """Raises UsageError for a model that came without a tokenizer."""
        if tokenizer is None:
            raise UsageError("the model cannot be served: there is no tokenizer with it")
        self._tokenizer = tokenizer
        template = tokenizer.chat_template
        written = template if isinstance(template, str) else json.dumps(template or "")
        self.chats = bool(template)
        self.marker = next((each for each in (CALL, _HERMES) if each in written), None)
        """Where a call begins; None for a template that knows no calls."""
        self.end = str(tokenizer.eos_token or "")
        """What ends a message."""
        self._pieces: dict[int, str] = {}
        self._cutter = Cutter(tokenizer)

    def write(self, messages: Sequence[Json], tools: Sequence[Json], *, answer: bool) -> str:
        """The conversation as text for `encode`, up to where the model answers if `answer`. Raises Unwritable."""
        try:
            written = self._tokenizer.apply_chat_template(
                [self._cutter.cut(for_template(each), each.get("role")) for each in messages],
                tools=self._cutter.cut(list(tools)) or None,
                tokenize=False,
                add_generation_prompt=answer,
            )
        except Exception as error:  # a template is a program of the model's makers
            line = str(error).partition("\n")[0]
            raise Unwritable(f"the model's chat template refuses these messages: {line[:200]}") from error
        return str(written)

    def encode(self, written: str) -> list[int]:
        """What `write` wrote, or a part of it, as tokens."""
        return encode_cut(written, self.tokenize)

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Text as tokens, special ones where it spells them; with those that the tokenizer adds if `special`.

        Half of a surrogate pair, which JSON can spell and Unicode does not know, becomes the replacement character.
        """
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return list(self._tokenizer(whole, add_special_tokens=special)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """Tokens as text, without special ones."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def piece(self, token: int) -> str:
        """One token as text, special ones included."""
        if token not in self._pieces:
            self._pieces[token] = str(self._tokenizer.decode([token], clean_up_tokenization_spaces=False))
        return self._pieces[token]

    def parse(self, text: str, tools: Sequence[Json]) -> tuple[str, list[Call]]:
        """An answer as what it says and what it calls; all of it is text where one call is none."""
        if not tools or self.marker is None or self.marker not in text:
            return text, []
        content, calls = _parse_lines(text, tools) if self.marker == CALL else _parse_hermes(text)
        return (content, calls) if all(_NAME.fullmatch(call.name) for call in calls) else (text, [])


def _parse_hermes(text: str) -> tuple[str, list[Call]]:
    calls: list[Call] = []
    for match in _HERMES_CALL.finditer(text):
        try:
            written = json.loads(match[1])
            arguments = written.get("arguments", {})
            call = Call(
                str(written["name"]),
                arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False),
            )
        except (ValueError, KeyError, AttributeError, RecursionError):
            return text, []
        calls.append(call)
    return (text.partition(_HERMES)[0].rstrip(), calls) if calls else (text, [])


def _parse_lines(text: str, tools: Sequence[Json]) -> tuple[str, list[Call]]:
    content, *parts = text.split(CALL)
    calls: list[Call] = []
    for part in parts:
        name, _, given = part.partition(" ")
        calls.append(Call(name, given if isinstance(parsed_arguments(given), dict) else _single(name, given, tools)))
    return content, calls


def _single(name: str, given: str, tools: Sequence[Json]) -> str:
    """Text that is no JSON object is the value of what the tool needs first."""
    schema: Json = next(
        (tool["function"].get("parameters") or {} for tool in tools if tool["function"].get("name") == name), {}
    )
    names = [*(schema.get("required") or ()), *(schema.get("properties") or ())]
    if not names:
        return given or "{}"
    return json.dumps({names[0]: given}, ensure_ascii=False) if given else "{}"
