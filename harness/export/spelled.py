"""Special tokens that a message spells stay text: only the chat template writes special tokens.

Otherwise a file that an agent reads could end its turn and begin another. Messages are cut behind the first character
of each special token in them, before the template renders them; tokens are made of what lies between two cuts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_CUT = "\ufdd0"
"""A code point that is no character of any text."""


class Cutter:
    """One tokenizer's: it knows what its special tokens are."""

    def __init__(self, tokenizer: Any) -> None:
        added = list(getattr(tokenizer, "added_tokens_decoder", {}).values())
        special = {*getattr(tokenizer, "all_special_tokens", ()), *(each.content for each in added if each.special)}
        self._special = _spelling(special)
        self._added = _spelling(special | {each.content for each in added})

    def cut(self, value: Any, role: object = None) -> Any:
        """A value in which no text spells a special token; nor any other added one such as `<think>`, unless the
        model wrote it itself, whose role is assistant."""
        if isinstance(value, str):
            spelling = self._special if role == "assistant" else self._added
            return spelling.sub(rf"\g<0>{_CUT}", value.replace(_CUT, "\ufffd"))
        if isinstance(value, Mapping):
            return {self.cut(key, role): self.cut(inner, role) for key, inner in value.items()}
        return [self.cut(inner, role) for inner in value] if isinstance(value, list) else value


def encode_cut(written: str, encode: Callable[[str], list[int]]) -> list[int]:
    """The tokens of what a template rendered of messages that were cut, or of a part of that."""
    return [token for part in written.split(_CUT) for token in encode(part)]


def _spelling(tokens: Iterable[str]) -> re.Pattern[str]:
    """Matches the first character of each of these tokens, overlapping ones too."""
    rests: dict[str, list[str]] = defaultdict(list)
    for token in sorted(tokens):
        if token[1:].strip():  # runs of blanks are ordinary text
            rests[token[0]].append(re.escape(token[1:]))
    begins = [f"{re.escape(first)}(?={'|'.join(rest)})" for first, rest in rests.items()]
    return re.compile("|".join(begins) or "(?!)")
