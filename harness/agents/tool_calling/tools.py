"""The tools: what each does in the sandbox, and what the model and the record are told of it.

A tool's failure is a result for the model, in words of our own: neither paths of the host nor tracebacks can get into
it. A failure of the sandbox itself is raised.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from backends.errors import SandboxError
from backends.protocol import SandboxBackendProtocol
from harness import strict_json
from harness.agents.tool_calling import arguments as args
from harness.agents.tool_calling.output import shorten
from harness.errors import ModelError
from harness.llm.protocol import ToolSchema

MAX_ENTRIES = 500
"""Entries of a listing, matches of a search."""

MAX_READ = 8 << 20
"""Bytes of a file that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """Bounds of a single call.

    Attributes:
        output_chars: characters of a result that the model is shown.
        command_sec: seconds for a command that asks for none; `max_command_sec`: the most that it can ask for.
    """

    output_chars: int = 16_000
    command_sec: float = 120.0
    max_command_sec: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call came to.

    Attributes:
        content: for the model, who is shown its head and tail; `footer` follows, and is never cut.
        error: a stable word for what went wrong, e.g. "not_found"; None if nothing did.
        exit_code: of a command, 124 when its deadline killed it; None for the other tools.
        truncated: the model does not see all of it.
    """

    content: str
    footer: str = ""
    error: str | None = None
    exit_code: int | None = None
    timed_out: bool = False
    truncated: bool = False
    oom: bool | None = None
    duration_sec: float = 0.0

    def extra(self) -> dict[str, Any]:
        """The structured part, for the record."""
        facts = {
            "exit_code": self.exit_code,
            "timed_out": self.timed_out,
            "truncated": self.truncated,
            "duration_sec": round(self.duration_sec, 6),
            "error": self.error,
        }
        return facts if self.oom is None else {**facts, "oom": self.oom}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """Where tools work: a sandbox, as a user, within limits. `time_left` gives the run's remaining seconds.

    `call_id` is the call that is worked on.
    """

    sandbox: SandboxBackendProtocol
    limits: ToolLimits
    time_left: Callable[[], float]
    user: str | None = None
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `side_by_side`: calls may run at the same time, since they change nothing or keep to themselves."""

    arguments: type[args.Arguments]
    run: Callable[[Any, Workbench], Awaitable[ToolResult]]
    side_by_side: bool


async def run_tool(tool: Tool, arguments: args.Arguments, bench: Workbench) -> ToolResult:
    """Run one call, bounded and timed. Raises SandboxError, and ModelError where the tool asks a model."""
    started = time.monotonic()
    try:
        result = await tool.run(arguments, bench)
    except (SandboxError, ModelError):
        raise
    except FileNotFoundError:
        result = _failed(arguments, "not_found", "no such file or directory")
    except IsADirectoryError:
        result = _failed(arguments, "is_a_directory", "this is a directory")
    except NotADirectoryError:
        result = _failed(arguments, "not_a_directory", "this is not a directory")
    except PermissionError:
        result = _failed(arguments, "permission", "permission denied")
    except Exception:  # noqa: BLE001 - whatever a backend raises, the model gets a result without host details
        result = ToolResult(content="error: the tool failed", error="tool_failed")
    whole = strict_json.whole(result.content)
    content = shorten(whole, bench.limits.output_chars)
    return replace(
        result,
        content=f"{content}\n{result.footer}" if result.footer else content,
        truncated=result.truncated or content != whole,
        duration_sec=time.monotonic() - started,
    )


def _failed(arguments: args.Arguments, error: str, words: str) -> ToolResult:
    path = getattr(arguments, "path", None)
    return ToolResult(content=f"error: {words}" + (f": {path}" if path else ""), error=error)


async def _bash(call: args.Bash, bench: Workbench) -> ToolResult:
    asked = min(call.timeout_sec or bench.limits.command_sec, bench.limits.max_command_sec)
    seconds = max(1.0, min(asked, bench.time_left()))
    response = await bench.sandbox.execute(call.command, timeout=seconds, user=bench.user)
    ending = f"124: killed after {seconds:g} s" if response.timed_out else str(response.agent_exit_code)
    footer = f"[exit code {ending}]"
    if response.truncated:
        dropped = response.stdout_size + response.stderr_size - len(response.stdout) - len(response.stderr)
        footer = f"[the last {dropped} bytes of the output were dropped]\n{footer}"
    return ToolResult(
        content=response.output or "(no output)",
        footer=footer,
        exit_code=response.agent_exit_code,
        timed_out=response.timed_out,
        truncated=response.truncated,
        oom=response.oom,
    )


async def _read(call: args.Read, bench: Workbench) -> ToolResult:
    text = (await bench.sandbox.read(call.path, max_bytes=MAX_READ)).decode("utf-8", "replace")
    lines = text.splitlines(keepends=True)
    chosen = lines[call.offset - 1 : call.offset - 1 + call.limit]
    if not chosen:
        return ToolResult(content=f"(no line {call.offset}: the file has {len(lines)} lines)")
    content = "".join(chosen)
    rest = len(lines) - (call.offset - 1) - len(chosen)
    return ToolResult(content=content, footer=f"[{rest} more lines]" if rest else "", truncated=rest > 0)


async def _write(call: args.Write, bench: Workbench) -> ToolResult:
    data = call.content.encode("utf-8", "replace")
    await bench.sandbox.write(call.path, data)
    return ToolResult(content=f"wrote {len(data)} bytes to {call.path}")


async def _edit(call: args.Edit, bench: Workbench) -> ToolResult:
    try:
        count = await bench.sandbox.edit(call.path, call.old, call.new, replace_all=call.replace_all)
    except ValueError:
        found = (await bench.sandbox.read(call.path, max_bytes=MAX_READ)).decode("utf-8", "replace").count(call.old)
        why = f"occurs {found} times; make it unique, or set replace_all" if found > 1 else "does not occur"
        return ToolResult(content=f"error: the old text {why}: {call.path}", error="no_unique_match")
    return ToolResult(content=f"replaced {count} in {call.path}")


async def _ls(call: args.Ls, bench: Workbench) -> ToolResult:
    entries = await bench.sandbox.ls(call.path)
    return _listing([f"{entry.path}{'/' if entry.kind == 'dir' else ''}" for entry in entries])


async def _grep(call: args.Grep, bench: Workbench) -> ToolResult:
    try:
        matches = await bench.sandbox.grep(call.pattern, call.path, include=call.include, max_matches=MAX_ENTRIES + 1)
    except ValueError:
        return ToolResult(content="error: the pattern is not an extended regular expression", error="bad_pattern")
    return _listing([f"{match.path}:{match.line}:{match.text}" for match in matches])


async def _glob(call: args.Glob, bench: Workbench) -> ToolResult:
    entries = await bench.sandbox.glob(call.pattern, call.path, max_matches=MAX_ENTRIES + 1)
    return _listing([entry.path for entry in entries])


async def _finish(call: args.Finish, bench: Workbench) -> ToolResult:
    return ToolResult(content="finished")


def _listing(lines: list[str]) -> ToolResult:
    more = len(lines) > MAX_ENTRIES
    shown = lines[:MAX_ENTRIES] + ([f"[only the first {MAX_ENTRIES} are shown]"] if more else [])
    return ToolResult(content="\n".join(shown) or "(nothing)", truncated=more)


TOOLS: dict[str, Tool] = {
    "bash": Tool(args.Bash, _bash, side_by_side=False),
    "read": Tool(args.Read, _read, side_by_side=True),
    "write": Tool(args.Write, _write, side_by_side=False),
    "edit": Tool(args.Edit, _edit, side_by_side=False),
    "ls": Tool(args.Ls, _ls, side_by_side=True),
    "grep": Tool(args.Grep, _grep, side_by_side=True),
    "glob": Tool(args.Glob, _glob, side_by_side=True),
    "finish": Tool(args.Finish, _finish, side_by_side=False),
}
"""What every task has; a task may add tools of its own, see `toolset`."""


def schemas_of(tools: Mapping[str, Tool]) -> tuple[ToolSchema, ...]:
    """What the model is told of the tools."""
    return tuple(_schema_of(name, tool.arguments) for name, tool in tools.items())


@cache
def _schema_of(name: str, arguments: type[args.Arguments]) -> ToolSchema:
    """Remembered, since every conversation begins with it and making one costs a millisecond."""
    return ToolSchema(name=name, description=arguments.__doc__ or name, parameters=arguments.parameters())
