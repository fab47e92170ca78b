"""Text from tasks and agents, made inert for what it is written into. All of it is hostile."""

from __future__ import annotations

import re

from harness.cli.text import plain

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+.!|~$:@-])")


def markdown(text: str, limit: int = 300) -> str:
    """One line of literal text: no HTML, link, mention, image, table cell or control character survives."""
    line = plain(_cut(text, limit))
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", line).replace("\\@", "&#64;").replace("\\:", "&#58;")


def xml(text: str, limit: int = 10_000) -> str:
    """Lines of printable characters, all of which XML can hold; quoting is the writer's."""
    return "\n".join(map(plain, _cut(text, limit).split("\n")))


def annotation(text: str, limit: int = 1000) -> str:
    """The message of a GitHub workflow command: one line, so that none of it can be a command of its own."""
    return plain(_cut(text, limit)).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def annotation_property(text: str, limit: int = 200) -> str:
    """A property of a GitHub workflow command."""
    return annotation(text, limit).replace(":", "%3A").replace(",", "%2C")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
