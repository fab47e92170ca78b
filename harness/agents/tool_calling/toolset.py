"""Which tools a run has: those of every task, and those that its task, its user and its place in the run add."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from harness.agents.tool_calling import arguments as args
from harness.agents.tool_calling.memory import memory_tool
from harness.agents.tool_calling.tools import TOOLS, Tool, ToolResult, Workbench
from harness.agents.user import User

Delegate = Callable[[args.Task, Workbench], Awaitable[ToolResult]]


def toolset(
    *,
    memory_dir: str | None = None,
    user: User | None = None,
    step: str | None = None,
    delegate: Delegate | None = None,
) -> dict[str, Tool]:
    """The tools by name, `finish` last. `delegate` runs a sub-agent; `step` is the step that questions are asked in."""
    tools = {name: tool for name, tool in TOOLS.items() if name != "finish"}
    if memory_dir is not None:
        tools["memory"] = memory_tool(memory_dir)
    if user is not None:
        tools["ask_user"] = _ask_user(user, step)
    if delegate is not None:
        tools["task"] = Tool(args.Task, delegate, side_by_side=True)
    return {**tools, "finish": TOOLS["finish"]}


def _ask_user(user: User, step: str | None) -> Tool:
    async def run(call: args.AskUser, bench: Workbench) -> ToolResult:
        return ToolResult(content=await user.ask(call.question, step))

    return Tool(args.AskUser, run, side_by_side=False)
