"""What a program is told: the instruction, and what else the task offers, for which it has no channel of its own."""

from __future__ import annotations

from harness.agents.protocol import AgentRun
from harness.errors import TaskUnsupported


def refuse_what_needs_a_talk(run: AgentRun, *, continues: bool) -> None:
    """Raise TaskUnsupported for a task that a program cannot honour: it is told something, and then left alone.

    Args:
        continues: it can be told more afterwards.
    """
    interaction = run.session.interaction
    wants = {
        "answers questions (user)": run.session.user is not None,
        "says more than one thing (turns)": bool(interaction.turns) and not continues,
        "continues one conversation over its steps": interaction.conversation == "continue" and not continues,
    }
    for what, wanted in wants.items():
        if wanted:
            raise TaskUnsupported(f"task {run.task_name!r} {what}, which this program cannot take part in")


def prompt_of(run: AgentRun, *, skills: str | None) -> str:
    """The instruction after the task's standing instructions, and a line each on its memory and its skills.

    Args:
        skills: where the program looks for skills by itself; None tells it where they are.
    """
    interaction = run.session.interaction
    notes = []
    if interaction.memory_dir is not None:
        notes.append(
            f"The folder {interaction.memory_dir} outlives this conversation: read it first, and keep there what will "
            "be needed later."
        )
    if interaction.skills_dir is not None and skills is None:
        notes.append(f"Read {interaction.skills_dir}/*/SKILL.md where one fits the task.")
    return "\n\n".join([run.prompt, *notes])


def with_skills(command: str, place: str | None) -> str:
    """The command after the task's skills were linked to where the program looks for them."""
    if place is None:
        return command
    place = place.replace("~/", "$HOME/", 1) if place.startswith("~/") else place
    link = f'mkdir -p "{place}" && ln -sfn "$SKILLS"/* "{place}"/'
    return f'if [ -n "${{SKILLS:-}}" ] && [ -d "$SKILLS" ]; then {link}; fi\n{command}'
