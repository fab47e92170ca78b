"""A reader of shell scripts that knows just enough to tell which commands run, and which of them write to files.

Not a shell: what it does not understand makes a script unclear, and is never guessed at. Linear in the script's length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MAX_CHARS = 100_000
"""A longer script is unclear without being read."""

_MAX_DEPTH = 20
_PLAIN = re.compile(r"[^\s'\"\\$`;&|<>()]+")
_HARMLESS_TARGETS = {"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"}


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: its words without quotes and redirections, and whether its output goes to a file."""

    words: tuple[str, ...]
    writes: bool


@dataclass(slots=True)
class Script:
    """All commands of a script, those in pipelines, subshells and substitutions included, in no particular order.

    Attributes:
        background: a command is left running by `&`.
        clear: everything was understood; otherwise the commands are only some of those that run.
    """

    commands: list[Command] = field(default_factory=list)
    background: bool = False
    clear: bool = True


class _Unclear(Exception):
    pass


def parse(text: str) -> Script:
    """Read a script. Never raises."""
    script = Script()
    if len(text) > MAX_CHARS:
        script.clear = False
        return script
    try:
        _Reader(text, script).read(closing="", depth=0)
    except _Unclear:
        script.clear = False
    return script


class _Reader:
    """Reads commands until its closing character, and those inside parentheses by reading on."""

    def __init__(self, text: str, script: Script) -> None:
        self.text = text
        self.at = 0
        self.script = script
        self.heredocs: list[tuple[str, bool, bool]] = []
        """Those announced on this line: the delimiter, whether tabs are stripped, whether the body is literal."""

    def read(self, *, closing: str, depth: int) -> None:
        """Read up to and past `closing`; "" is the end of the text."""
        if depth > _MAX_DEPTH:
            raise _Unclear
        line = _Line(self.script)
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == closing:
                self.at += 1
                line.end(self)
                return
            if char == " ":
                line.end_word(self)
                self.at += 1
                continue
            plain = _PLAIN.match(self.text, self.at)
            if plain is not None and not (char == "#" and line.word is None):
                line.add(plain[0])
                self.at = plain.end()
            else:
                self._special(char, line, depth)
        if closing:
            raise _Unclear
        line.end(self)
        if self.heredocs:
            raise _Unclear

    def _special(self, char: str, line: _Line, depth: int) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if char == "#":
            self.at = self._find("\n", or_end=True)
        elif char == "\n":
            line.end(self)
            self.at += 1
            self._skip_heredocs()
        elif char.isspace():
            line.end_word(self)
            self.at += 1
        elif char == "\\":
            if following != "\n":
                line.add(following, quoted=True)
            self.at += 2
        elif char == "'":
            end = self._find("'", self.at + 1)
            line.add(self.text[self.at + 1 : end], quoted=True)
            self.at = end + 1
        elif char == '"':
            self._double_quotes(line, depth)
        elif char in "$`":
            self._expansion(line, depth)
        elif char in ";|":
            self._separator(char, following, line)
        elif char == "&":
            self._ampersand(following, line)
        elif char in "<>":
            self._redirection(char, line, depth)
        elif char == "(" and line.empty:
            self.at += 1
            self.read(closing=")", depth=depth + 1)
            line.after_group = True
        else:
            raise _Unclear

    def _find(self, what: str, start: int | None = None, *, or_end: bool = False) -> int:
        found = self.text.find(what, self.at if start is None else start)
        if found < 0:
            if or_end:
                return len(self.text)
            raise _Unclear
        return found

    def _separator(self, char: str, following: str, line: _Line) -> None:
        if char == ";" and following == ";":
            raise _Unclear
        line.end(self)
        self.at += 2 if char == "|" and following in ("|", "&") else 1

    def _ampersand(self, following: str, line: _Line) -> None:
        if following == ">":
            line.end_word(self)
            self.at += 3 if self.text.startswith("&>>", self.at) else 2
            line.expects = "output"
            return
        line.end(self)
        self.script.background |= following != "&"
        self.at += 2 if following == "&" else 1

    def _redirection(self, char: str, line: _Line, depth: int) -> None:
        line.drop_descriptor()
        line.end_word(self)
        rest = self.text[self.at : self.at + 3]
        if rest.startswith("<("):
            self.at += 2
            self.read(closing=")", depth=depth + 1)
            line.add("<()")
        elif rest == "<<<":
            self.at += 3
            line.expects = "input"
        elif rest.startswith("<<"):
            self.at += 3 if rest == "<<-" else 2
            line.expects = "heredoc-" if rest == "<<-" else "heredoc"
        elif rest.startswith((">(", "<>")):
            raise _Unclear
        elif rest.startswith((">&", "<&")):
            self.at += 2
            line.expects = "descriptor"
        else:
            self.at += 2 if rest.startswith((">>", ">|")) else 1
            line.expects = "output" if char == ">" else "input"

    def _double_quotes(self, line: _Line, depth: int) -> None:
        self.at += 1
        line.add("", quoted=True)
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\":
                line.add(self.text[self.at + 1 : self.at + 2])
                self.at += 2
            elif char in "$`":
                self._expansion(line, depth)
            else:
                end = _QUOTED.match(self.text, self.at)
                assert end is not None
                line.add(end[0])
                self.at = end.end()
        raise _Unclear

    def _expansion(self, line: _Line, depth: int) -> None:
        rest = self.text[self.at : self.at + 3]
        if rest.startswith("`"):
            end = self._find("`", self.at + 1)
            inner = self.text[self.at + 1 : end]
            if "\\`" in inner or inner.endswith("\\"):
                raise _Unclear
            _Reader(inner, self.script).read(closing="", depth=depth + 1)
            self.at = end + 1
        elif rest == "$((":
            self.at = self._find("))") + 2
        elif rest.startswith("$("):
            self.at += 2
            self.read(closing=")", depth=depth + 1)
        elif rest.startswith("${"):
            end = self._find("}")
            if "$(" in self.text[self.at : end] or "`" in self.text[self.at : end]:
                raise _Unclear
            self.at = end + 1
        elif rest.startswith("$'"):
            raise _Unclear
        else:
            self.at += 1
        line.add("$")

    def _skip_heredocs(self) -> None:
        for delimiter, tabs, literal in self.heredocs:
            start = self.at
            while True:
                if self.at >= len(self.text):
                    raise _Unclear
                end = self._find("\n", or_end=True)
                text = self.text[self.at : end]
                last, self.at = self.at, end + 1
                if (text.lstrip("\t") if tabs else text) == delimiter:
                    break
            body = self.text[start:last]
            if not literal and ("$(" in body or "`" in body):
                raise _Unclear
        self.heredocs.clear()


_QUOTED = re.compile(r'[^"\\$`]+')


class _Line:
    """The command that is being read."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.after_group = False
        self._clear()

    def _clear(self) -> None:
        self.words: list[str] = []
        self.writes = False
        self.word: str | None = None
        self.quoted = False
        self.expects = ""
        """What the next word is, if not a word of the command: the target of a redirection."""

    @property
    def empty(self) -> bool:
        """Whether a command begins here."""
        return not self.words and self.word is None and not self.expects and not self.after_group

    def add(self, text: str, *, quoted: bool = False) -> None:
        """Append to the word."""
        self.word = (self.word or "") + text
        self.quoted |= quoted

    def drop_descriptor(self) -> None:
        """Forget the number that stands right before a redirection."""
        if self.word is not None and self.word.isdigit() and not self.quoted:
            self.word = None

    def end_word(self, reader: _Reader) -> None:
        """The word is complete."""
        word, quoted, expected = self.word, self.quoted, self.expects
        if word is None:
            return
        self.word, self.quoted, self.expects = None, False, ""
        if expected == "output" or (expected == "descriptor" and not word.rstrip("-").isdigit() and word != "-"):
            self.writes |= word not in _HARMLESS_TARGETS
        elif expected.startswith("heredoc"):
            reader.heredocs.append((word, expected.endswith("-"), quoted))
        elif not expected:
            self.words.append(word)

    def end(self, reader: _Reader) -> None:
        """The command is complete."""
        self.end_word(reader)
        if self.expects or (self.after_group and self.words):
            raise _Unclear
        if self.words or self.writes:
            self.script.commands.append(Command(tuple(self.words), self.writes))
        self.after_group = False
        self._clear()
