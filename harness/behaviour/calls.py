"""What a recorded call is, whoever's tool it was: a shell command or not, an inspection or a change, its identity."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from harness.atif.model import ToolCall
from harness.behaviour.history import script_reads_history
from harness.behaviour.shell import script_detaches, script_inspects
from harness.behaviour.shell_syntax import parse

SHELLS = frozenset(
    {
        *("bash", "Bash", "bash_command", "shell", "execute_bash", "run_command", "run_shell_command"),
        *("exec_command", "terminal"),
    }
)
"""The names by which agents know a tool that runs a shell command."""

_COMMAND_KEYS = ("command", "cmd", "keystrokes", "input")

_INSPECTORS = frozenset(
    {
        *("read", "ls", "grep", "glob", "search", "view", "find", "read_file", "read_many_files", "view_file"),
        *("open_file", "list_dir", "list_directory", "list_files", "file_search", "grep_search", "search_files"),
        *("search_file_content", "codebase_search", "find_file", "search_dir", "search_file", "list_skills"),
        *("read_skill", "web_search", "think", "ask_user"),
    }
)
_DELEGATES = frozenset({"task", "Task", "delegate", "spawn_agent"})

_VIEWS = frozenset({"view", "read", "list", "ls", "search"})
"""What tools with several commands call those that only look."""

_CONTENT_KEYS = frozenset({"content", "old", "new", "old_str", "new_str", "old_string", "new_string", "file_text"})
"""Arguments whose text is written somewhere, and names no file that the call touches."""

_encode = json.JSONEncoder(sort_keys=True, default=str).encode

_TESTS = re.compile(r"(?:(?<![\w.\-/~])/|(?:\.\./)+)(?:tests|solution|logs/verifier)(?![\w.-])")
"""Where the verifier's own files lie: `/tests`, `/solution` and `/logs/verifier`, or the way up to them."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What is known of a call from the call alone.

    Attributes:
        key: equal for calls that do the same: of a shell command its text, of others all arguments.
        inspects: it changes nothing. shell: it runs a shell command; background: and leaves something running.
        touches_tests: it names the verifier's files. reads_history: it looks for commits that the repository is not at.
        delegates: it starts a sub-agent. fault: it was refused for its form, and never ran.
    """

    key: str
    shell: bool
    inspects: bool
    background: bool
    touches_tests: bool
    reads_history: bool
    fault: bool
    delegates: bool = False


def command_of(call: ToolCall) -> str | None:
    """The shell command that a call runs; None for a call of another kind."""
    if call.function_name not in SHELLS:
        return None
    return next((value for key in _COMMAND_KEYS if isinstance(value := call.arguments.get(key), str)), None)


def facts_of(call: ToolCall) -> CallFacts:
    """Judge one call by itself. Never raises."""
    extra = call.extra or {}
    fault = extra.get("fault") is not None
    command = command_of(call)
    if command is None:
        raw = extra.get("raw_arguments") if fault else None
        arguments = _encode([call.arguments, raw] if raw else call.arguments)
        inspects, background, history = _tool_inspects(call), False, False
    else:
        arguments, script = command.strip(), parse(command)
        inspects, background = script_inspects(script), script_detaches(script)
        history = script_reads_history(script)
    return CallFacts(
        key=f"{call.function_name}\0{arguments}",
        shell=command is not None,
        inspects=inspects and not fault,
        background=background and not fault,
        touches_tests=not fault and any(_TESTS.search(text) for text in _texts(call.arguments)),
        reads_history=history and not fault,
        fault=fault,
        delegates=call.function_name in _DELEGATES,
    )


def _tool_inspects(call: ToolCall) -> bool:
    name = call.function_name.lower()
    command = call.arguments.get("command")
    return name in _INSPECTORS or (name not in SHELLS and isinstance(command, str) and command in _VIEWS)


def _texts(arguments: dict[str, Any]) -> list[str]:
    return [value for key, value in arguments.items() if isinstance(value, str) and key not in _CONTENT_KEYS]
