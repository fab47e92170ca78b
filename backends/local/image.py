"""The subset of Dockerfile that needs no engine: FROM, WORKDIR, ENV, USER, COPY and ADD of local files.

The host takes the place of the image that FROM names. Whatever else a Dockerfile asks for is refused with its line.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from backends.errors import SandboxBuildError, SandboxUnsupported
from backends.local.spawn import CLEAN_ENV

_IGNORED = {"LABEL", "CMD", "EXPOSE", "MAINTAINER", "STOPSIGNAL"}
_ARCHIVE = re.compile(r"\.(tar|tgz|tbz2?|txz|tar\.\w+)$")
_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""", re.DOTALL)
_PIECE = re.compile(
    r"""\\(?P<escaped>.)|'(?P<raw>[^']*)'|"(?P<soft>(?:[^"\\]|\\.)*)"|(?P<variable>\$\w+|\$\{[^}]*\})|(?P<plain>.)""",
    re.DOTALL,
)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(:[-+])([^}]*))?\})")


@dataclass(frozen=True, slots=True)
class Copy:
    """One file or folder of the context, and the absolute path where it, or its contents, arrive."""

    source: Path
    target: str
    mode: int | None


@dataclass(slots=True)
class ImagePlan:
    """What a Dockerfile comes to: the last word on workdir, user and environment, and what must be put in place."""

    workdir: str = "/"
    user: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)


def read_dockerfile(build_dir: Path) -> ImagePlan:
    """The plan of `build_dir/Dockerfile`.

    Raises SandboxBuildError where no engine could build it either, and SandboxUnsupported, naming file, line and
    text, for what needs one.
    """
    path = build_dir / "Dockerfile"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxBuildError(f"{path}: cannot be read: {error}", backend="local") from error
    reader = _Reader(build_dir.resolve(), path)
    for number, line in logical_lines(text):
        reader.instruction(number, line)
    if not reader.stages:
        raise SandboxBuildError(f"{path}: no FROM line", backend="local")
    return reader.plan


def logical_lines(text: str) -> list[tuple[int, str]]:
    """Instructions with the number of the line that each starts on; continuations joined, comments left out."""
    lines: list[tuple[int, str]] = []
    pending, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("#") or (pending and not stripped):
            continue
        if not pending:
            start = number
        continued = re.search(r"\\\s*$", line)
        pending += line[: continued.start()] if continued else line
        if not continued:
            if pending.strip():
                lines.append((start, pending.strip()))
            pending = ""
    if pending.strip():
        lines.append((start, pending.strip()))
    return lines


class _Reader:
    def __init__(self, context: Path, path: Path) -> None:
        self.plan = ImagePlan()
        self.stages = 0
        self._context = context
        self._path = path
        self._line = (0, "")

    def instruction(self, number: int, line: str) -> None:
        self._line = (number, line)
        keyword, _, rest = line.partition(" ")
        keyword, rest = keyword.upper(), rest.strip()
        if keyword == "FROM":
            self._from()
        elif not self.stages:
            self._unsupported(f"{keyword} before FROM")
        elif keyword == "WORKDIR":
            self._workdir(rest)
        elif keyword == "ENV":
            self._env(rest)
        elif keyword == "USER":
            self.plan.user = self._expand(rest).partition(":")[0] or None
        elif keyword in ("COPY", "ADD"):
            self._copy(keyword, rest)
        elif keyword not in _IGNORED:
            self._unsupported(keyword)

    def _from(self) -> None:
        self.stages += 1
        if self.stages > 1:
            self._unsupported("a second stage")

    def _workdir(self, rest: str) -> None:
        self.plan.workdir = posixpath.normpath(posixpath.join(self.plan.workdir, self._expand(rest)))
        self.plan.directories.append(self.plan.workdir)

    def _env(self, rest: str) -> None:
        if "=" not in rest.split(None, 1)[0]:
            name, _, value = rest.partition(" ")
            pairs = {name: self._expand(value.strip())}
        else:
            pairs = {}
            for word in _WORD.findall(rest):
                name, equals, value = word.partition("=")
                if not equals:
                    self._broken(f"{word!r} is not NAME=value")
                pairs[name] = self._expand(value)
        self.plan.env.update(pairs)

    def _copy(self, keyword: str, rest: str) -> None:
        mode = None
        while match := re.match(r"--(\w+)(?:=(\S*))?\s+", rest):
            flag, value, rest = match[1], match[2] or "", rest[match.end() :]
            if flag == "chmod" and re.fullmatch(r"0?[0-7]{3,4}", value):
                mode = int(value, 8)
            elif flag not in ("chown", "link"):
                self._unsupported(f"{keyword} --{flag}")
        if "<<" in rest:
            self._unsupported("a heredoc")
        try:
            words = json.loads(rest) if rest.startswith("[") else _WORD.findall(rest)
        except ValueError:
            self._broken("malformed JSON form")
        if len(words) < 2 or not all(isinstance(word, str) for word in words):
            self._broken(f"{keyword} needs sources and a destination")
        names = [self._expand(word) for word in words]
        target = posixpath.join(self.plan.workdir, names[-1])
        into = target.endswith(("/", "/.")) or names[-1] == "." or len(names) > 2
        target = posixpath.normpath(target)
        sources = [source for name in names[:-1] for source in self._sources(keyword, name)]
        into = into or len(sources) > 1 or target in self.plan.directories
        for source in sources:
            if source.is_dir():
                self.plan.directories.append(target)
                self.plan.copies.append(Copy(source, target, mode))
            else:
                place = posixpath.join(target, source.name) if into else target
                self.plan.directories.append(posixpath.dirname(place))
                self.plan.copies.append(Copy(source, place, mode))

    def _sources(self, keyword: str, name: str) -> list[Path]:
        if keyword == "ADD" and (re.match(r"\w+://|git@", name) or _ARCHIVE.search(name)):
            self._unsupported("ADD of a URL or an archive")
        relative = posixpath.normpath(name.lstrip("/") or ".")
        if relative.startswith("../") or relative == "..":
            self._unsupported(f"{name!r} lies outside the build context")
        found = sorted(self._context.glob(relative)) if re.search(r"[*?\[]", relative) else [self._context / relative]
        for source in found:
            if not source.resolve().is_relative_to(self._context):
                self._unsupported(f"{name!r} is a link that leaves the build context")
            if not source.exists():
                self._broken(f"{name!r} does not exist in {self._context}")
        if not found:
            self._broken(f"{name!r} fits no file in {self._context}")
        return found

    def _expand(self, text: str) -> str:
        return expand(text, CLEAN_ENV | self.plan.env)

    def _where(self) -> str:
        number, text = self._line
        return f"{self._path}:{number}: {text[:120]}"

    def _unsupported(self, what: str) -> NoReturn:
        raise SandboxUnsupported(
            f"{self._where()}: the local backend cannot do this ({what}); use `--backend docker`", backend="local"
        )

    def _broken(self, what: str) -> NoReturn:
        raise SandboxBuildError(f"{self._where()}: {what}", backend="local")


def expand(text: str, env: Mapping[str, str]) -> str:
    """Quotes and backslashes removed, `$NAME`, `${NAME}`, `${NAME:-word}` and `${NAME:+word}` replaced."""
    out = []
    for piece in _PIECE.finditer(text):
        if piece["soft"] is not None:
            out.append(_VARIABLE.sub(lambda match: _value(match, env), re.sub(r'\\(["\\])', r"\1", piece["soft"])))
        elif piece["variable"] is not None:
            out.append(_VARIABLE.sub(lambda match: _value(match, env), piece["variable"]))
        else:
            out.append(next(part for part in (piece["escaped"], piece["raw"], piece["plain"]) if part is not None))
    return "".join(out)


def _value(match: re.Match[str], env: Mapping[str, str]) -> str:
    value = env.get(match[1] or match[2], "")
    if match[3] == ":-":
        return value or match[4]
    if match[3] == ":+":
        return match[4] if value else ""
    return value
