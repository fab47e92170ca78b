"""From what the model wrote to a call that may run: nothing unparsed is ever executed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from harness import strict_json
from harness.agents.tool_calling.arguments import Arguments
from harness.agents.tool_calling.output import shorten
from harness.agents.tool_calling.tools import TOOLS, Tool
from harness.atif.model import ToolCall
from harness.llm.protocol import ToolRequest

MAX_ECHO = 800
"""Characters of a bad call that are shown back to the model, and kept in the record."""

Fault = Literal["malformed", "truncated", "unknown_tool", "bad_arguments"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a turn, ready to run, or with its fault and the words for the model.

    Attributes:
        values: the arguments as parsed, also where they do not fit the tool; empty if nothing could be parsed.
    """

    id: str
    name: str
    raw: str
    values: dict[str, Any]
    tool: Tool | None = None
    arguments: Arguments | None = None
    fault: Fault | None = None
    complaint: str = ""

    @property
    def side_by_side(self) -> bool:
        """Whether the call runs, and may do so at the same time as others."""
        return self.tool is not None and self.tool.side_by_side

    def for_history(self) -> ToolRequest:
        """The call as it is sent back: endpoints reject a history with a bad name, or arguments that are no JSON."""
        name = re.sub(r"[^A-Za-z0-9_-]", "_", self.name)[:64] or "unknown"
        parsed = self.fault not in ("malformed", "truncated")
        return ToolRequest(id=self.id, name=name, arguments=self.raw if parsed else "{}")

    def for_record(self) -> ToolCall:
        """The call as ATIF has it."""
        extra: dict[str, Any] | None = None
        if self.fault is not None:
            extra = {"fault": self.fault, "parse_error": self.complaint}
            if not self.values:
                extra |= {"raw_arguments": shorten(self.raw, MAX_ECHO), "raw_length": len(self.raw)}
        return ToolCall(
            tool_call_id=self.id, function_name=self.name[:200] or "unknown", arguments=self.values, extra=extra
        )


def parse_call(request: ToolRequest, tools: Mapping[str, Tool] = TOOLS) -> Call:
    """Check one call against its tool, of those that the run has. Never raises."""
    raw = request.arguments.strip() or "{}"

    def bad(fault: Fault, complaint: str, values: dict[str, Any] | None = None) -> Call:
        return Call(
            id=request.id,
            name=request.name,
            raw=raw,
            values=values or {},
            fault=fault,
            complaint=f"error: {complaint}",
        )

    echo = f"{shorten(raw, MAX_ECHO)} ({len(raw)} characters)"
    try:
        values = strict_json.loads(raw)
    except ValueError as error:
        fault: Fault = "truncated" if _ends_early(error) else "malformed"
        what = "end too early" if fault == "truncated" else "are not JSON"
        return bad(fault, f"the arguments {what}, so nothing was executed: {echo}")
    if not isinstance(values, dict):
        return bad("malformed", f"the arguments must be a JSON object, so nothing was executed: {echo}")
    tool = tools.get(request.name)
    if tool is None:
        return bad("unknown_tool", f"there is no tool {request.name[:80]!r}; the tools are {', '.join(tools)}", values)
    try:
        arguments = tool.arguments.model_validate(values)
    except ValidationError as error:
        return bad("bad_arguments", f"{request.name}: {_first_problem(error)}, so nothing was executed", values)
    return Call(id=request.id, name=request.name, raw=raw, values=values, tool=tool, arguments=arguments)


def _ends_early(error: ValueError) -> bool:
    """Whether more text could have made it JSON: a cut, rather than a mistake."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")


def _first_problem(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    words = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems[:3]]
    return shorten("; ".join(words), MAX_ECHO)
