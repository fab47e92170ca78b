"""What the agent tells the model, apart from the task."""

from __future__ import annotations

from collections.abc import Sequence

from harness.agents.tool_calling.skills import Skill

SYSTEM = """\
You work on a task in a Linux sandbox, by calling tools. Commands run without a terminal. Every command starts in the
working directory; nothing of a shell's state survives from one command to the next.
Look before you change things, and check your work. Calls that only inspect (read, ls, grep, glob) may be made together
in one turn. When the task is done, call finish. Your work is graded by the state of the sandbox, not by what you say.
"""
SYSTEM_ALONE = f"{SYSTEM}There is nobody to ask.\n"
SUBAGENT = """\
You are a sub-agent: another agent handed you a piece of its work, in a Linux sandbox that you share with it. You work
by calling tools. Commands run without a terminal. Every command starts in the working directory; nothing of a shell's
state survives from one command to the next. There is nobody to ask. Do what you were asked and nothing else. When it
is done, or cannot be done, call finish: its summary is all that the other agent gets, so it must hold the whole answer.
"""

_USER = "The user can be asked: call ask_user for what neither the task nor the sandbox tells, and for nothing else."
_MEMORY = """\
Your memory is the folder {folder}, which you read and write by the tool memory. It outlives this conversation: what you
will need in a later one, where you remember nothing of this one, must stand there. Look into it before you start."""
_SKILLS = """\
Skills are written instructions for certain kinds of work. Before work that a description fits, read the skill's file
and follow it."""


def system_prompt(
    base: str, *, standing: str | None, skills: Sequence[Skill], memory_dir: str | None, user: bool
) -> str:
    """The whole of it: the agent's own words, what this task gives it, and the task's standing instructions last."""
    parts = [base.strip()]
    if user:
        parts.append(_USER)
    if memory_dir:
        parts.append(_MEMORY.format(folder=memory_dir))
    if skills:
        listed = "\n".join(f"- {each.name}: {each.description or '(not described)'} [{each.path}]" for each in skills)
        parts.append(f"{_SKILLS}\n{listed}")
    if standing:
        parts.append(standing.strip())
    return "\n\n".join(parts) + "\n"


EMPTY = "Your answer was empty. Call a tool to go on, or call finish if the task is done."
TEXT_ONLY = "No tool was called. Call a tool to go on, or call finish if the task is done."
CUT_TEXT = "Your answer was cut at the token limit. Go on, in shorter answers."
CUT_CALL = (
    "not executed: your answer was cut at the token limit, so this call may be incomplete; send it again, shorter"
)
COMPACTED = "[Earlier turns were removed to save space. What was done in the sandbox is still in place.]"
