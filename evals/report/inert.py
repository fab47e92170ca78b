"""Text of tasks, agents and models as HTML that does nothing: shown to the last character, obeyed in none.

Every character that is not printable (escape sequences, overrides of the writing direction, NUL) becomes a visible
mark of ours, which looks different from an agent that printed the same letters. Long text loses its middle.
"""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_UNSAFE = re.compile(r"[^\n\t\x20-\x7e]")


def inert(text: str, limit: int) -> Markup:
    """`text` as HTML of at most about `limit` bytes of it; what is left out is counted."""
    head, left_out, tail = cut(text, limit)
    if not left_out:
        return _marked(head)
    return _marked(head) + Markup('<i class="cut">%s bytes left out</i>') % f"{left_out:,}" + _marked(tail)


def cut(text: str, limit: int) -> tuple[str, int, str]:
    """The beginning, the number of bytes left out, and the end, which is a third of what is kept."""
    # A character is one to four bytes: what is short in the largest measure is short in any.
    if len(text) * 4 <= limit:
        return text, 0, ""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text, 0, ""
    end = limit // 3
    head, tail = raw[: limit - end], raw[len(raw) - end :]
    return head.decode("utf-8", "ignore"), len(raw) - limit, tail.decode("utf-8", "ignore")


def _marked(text: str) -> Markup:
    safe = str(escape(text.replace("\r\n", "\n")))
    return Markup(_UNSAFE.sub(_mark, safe))  # noqa: S704 - escaped above; the marks are ours


def _mark(found: re.Match[str]) -> str:
    char = found[0]
    if char.isprintable():
        return char
    return f'<i class="ctl">\\x{ord(char):02x}</i>'
