"""A Dockerfile as E2B can build it: one stage, no start command, and the user and directory that Docker would give.

The SDK runs an image's CMD in every sandbox, and gives images without USER or WORKDIR a user and a home of E2B's own.
Four lines at the end undo that.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from e2b_dockerfile_utils import ShellLex, parse_dockerfile_ast

from backends.errors import SandboxUnsupported

_REFUSED = {"ONBUILD", "SHELL"}


@dataclass(frozen=True, slots=True)
class Plan:
    """The text to build, and what commands start as and in."""

    text: str
    user: str
    workdir: str


def plan(text: str) -> Plan:
    """Read a Dockerfile. Raises DockerfileSyntaxError, and SandboxUnsupported for what E2B would silently leave out."""
    ast = parse_dockerfile_ast(text)
    variables: dict[str, str] = {}
    lexer = ShellLex(ast.escape_token, env=variables, skip_unset_env=False)
    user, workdir = None, None
    for instruction in ast.instructions:
        if instruction.name in _REFUSED:
            raise SandboxUnsupported(
                f"e2b cannot build {instruction.name} (line {instruction.start_line} of the Dockerfile); "
                "use `--backend docker`",
                backend="e2b",
                operation="build",
            )
        if instruction.name == "ENV":
            for place in range(0, len(instruction.args) - 2, 3):
                variables[instruction.args[place]] = lexer.process_word(instruction.args[place + 1])
        elif instruction.name == "ARG":
            for name, _, value in (arg.partition("=") for arg in instruction.args):
                variables.setdefault(name, lexer.process_word(value))
        elif instruction.name == "USER" and instruction.args:
            user = lexer.process_word(instruction.args[0]).partition(":")[0]
        elif instruction.name == "WORKDIR" and instruction.args:
            workdir = posixpath.normpath(posixpath.join(workdir or "/", lexer.process_word(instruction.args[0])))
    ends = [] if workdir else ["WORKDIR /"]
    ends += [] if user else ["USER root"]
    ends += ["ENTRYPOINT []", "CMD []"]
    return Plan(text="\n".join([text, *ends, ""]), user=user or "root", workdir=workdir or "/")
