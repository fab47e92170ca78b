"""The tools' arguments: the one place from which both their JSON schemas and their checks are made."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Arguments(BaseModel):
    """Base of every tool's arguments; its docstring is what the model reads about the tool."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def parameters(cls) -> dict[str, Any]:
        """The JSON schema, without the titles that would only cost tokens."""
        schema = _without_titles(cls.model_json_schema())
        schema.pop("description", None)
        return schema


class Bash(Arguments):
    """Run a shell command and return its output and exit code. Children left in the background live on."""

    command: str
    timeout_sec: float | None = Field(default=None, gt=0, description="Seconds until the command is killed.")


class Read(Arguments):
    """Return the lines of a text file."""

    path: str
    offset: int = Field(default=1, ge=1, description="The first line to return, counted from 1.")
    limit: int = Field(default=2000, ge=1, description="How many lines to return.")


class Write(Arguments):
    """Create or replace a file; missing folders are made."""

    path: str
    content: str


class Edit(Arguments):
    """Replace a text in a file by another. The old text must occur exactly once, unless replace_all is set."""

    path: str
    old: str = Field(min_length=1)
    new: str
    replace_all: bool = False


class Ls(Arguments):
    """List a directory."""

    path: str = "."


class Grep(Arguments):
    """Find lines that match an extended regular expression, below a directory."""

    pattern: str
    path: str = "."
    include: str | None = Field(default=None, description="Only files whose name fits this shell pattern.")


class Glob(Arguments):
    """Find files by a shell pattern in which ** crosses directories."""

    pattern: str
    path: str = "."


class AskUser(Arguments):
    """Ask the user one question and return the answer. Ask for what neither the task nor the sandbox tells."""

    question: str = Field(min_length=1)


class Memory(Arguments):
    """Keep notes in your memory folder. view: a note (view_range picks lines), or a list of all. create: write a note.
    str_replace: old_str, which occurs once, by new_str. insert: insert_text after line insert_line (0 is the top).
    delete: a note or folder. rename: path to new_path. Paths are relative to the memory folder, or begin with it."""

    command: Literal["view", "create", "str_replace", "insert", "delete", "rename"]
    path: str = ""
    new_path: str = ""
    file_text: str = ""
    old_str: str = ""
    new_str: str = ""
    insert_line: int = Field(default=0, ge=0)
    insert_text: str = ""
    view_range: tuple[int, int] | None = None


class Task(Arguments):
    """Hand a piece of work to a sub-agent that works in the same sandbox, and return its answer. It knows nothing of
    this conversation: the prompt tells it all it needs and what to answer. Several in one turn run at the same time."""

    description: str = Field(min_length=1, max_length=200, description="The work in three to five words.")
    prompt: str = Field(min_length=1)


class Finish(Arguments):
    """End the work. Call it when the task is done, or cannot be done."""

    summary: str = ""


def _without_titles(node: dict[str, Any]) -> dict[str, Any]:
    """`properties` may well have a member called title; only a schema's own title, a string, goes."""
    return {
        key: _without_titles(value) if isinstance(value, dict) else value
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str))
    }
