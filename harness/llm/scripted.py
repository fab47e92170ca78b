"""A model that plays fixed replies from a script: no network, no chance, no key.

A script is a TOML or JSON file:

    on_end = "finish"            # what follows the last reply: "finish", "repeat" (the last one), or "error"

    [[replies]]                  # for every task that no pattern below fits
    text = "I will look around."
    calls = [{ name = "bash", arguments = { command = "ls" } }]

    [[tasks."acme/hello*"]]      # for tasks whose name fits the pattern; the first pattern that fits wins
    calls = [{ name = "write", arguments = { path = "/app/hello.txt", content = "hello" } }]

    [[tasks."acme/ledger#close"]]  # for one step of a task that has several; it stands before a pattern for all steps
    calls = [{ name = "bash", arguments = { command = "./close" } }]

    [[subagents."count*"]]       # for sub-agents whose description fits the pattern
    calls = [{ name = "finish", arguments = { summary = "42" } }]

Every reply may have `text`, `reasoning`, `calls`, `finish_reason`, `prompt_tokens`, `cached_tokens` and
`completion_tokens`. A call's `arguments` are a table, or a string that is sent as it is (also when it is no JSON); its
`id` is optional. Reply number n answers the n-th model call of a run, whatever the user says in between; each step of a
task and each sub-agent is a run of its own. A simulated user that the model speaks for is the sub-agent "user".
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import ModelRejected, UsageError
from harness.llm.protocol import CallContext, Message, Reply, ToolRequest, ToolSchema


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScriptedCall(_Value):
    """One tool call."""

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    id: str | None = None


class ScriptedReply(_Value):
    """One reply."""

    text: str = ""
    reasoning: str | None = None
    calls: tuple[ScriptedCall, ...] = ()
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None


Replies = tuple[ScriptedReply, ...]


class Script(_Value):
    """All replies, by task."""

    on_end: Literal["finish", "repeat", "error"] = "finish"
    replies: Replies = ()
    tasks: dict[str, Replies] = Field(default_factory=dict)
    subagents: dict[str, Replies] = Field(default_factory=dict)

    def for_run(self, context: CallContext) -> Replies:
        """The replies for the run that a call belongs to; a sub-agent that no pattern fits has none."""
        if context.subagent is not None:
            return _first_fit(self.subagents, [context.subagent]) or ()
        names = [context.task_name, *([f"{context.task_name}#{context.step}"] if context.step else [])]
        found = _first_fit(self.tasks, names)
        return self.replies if found is None else found


def _first_fit(by_pattern: Mapping[str, Replies], names: Sequence[str]) -> Replies | None:
    return next(
        (replies for pattern, replies in by_pattern.items() if any(fnmatchcase(name, pattern) for name in names)), None
    )


def load_script(path: Path) -> Script:
    """The script in a file. Raises UsageError with one line that says what is wrong and where."""
    try:
        text = path.read_text(encoding="utf-8")
        return Script.model_validate(json.loads(text) if path.suffix == ".json" else tomllib.loads(text))
    except OSError as error:
        raise UsageError(f"cannot read the script {path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UsageError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error


class ScriptedModel:
    """A ChatModel that answers from a script."""

    def __init__(self, script: Script, *, name: str = "scripted") -> None:
        self._script = script
        self._name = name

    @property
    def name(self) -> str:
        """Its name, "scripted" unless it plays another model's part."""
        return self._name

    @property
    def sampling(self) -> Mapping[str, Any]:
        """Nothing is sampled."""
        return {}

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema], context: CallContext) -> Reply:
        """The reply that the script has for this turn. Raises ModelRejected when it has none and says "error"."""
        replies = self._script.for_run(context)
        if context.turn < len(replies):
            return _reply(replies[context.turn], context.turn)
        if self._script.on_end == "repeat" and replies:
            return _reply(replies[-1], context.turn)
        if self._script.on_end == "error":
            who = f"task {context.task_name!r}" if context.subagent is None else f"sub-agent {context.subagent!r}"
            raise ModelRejected(f"the script has no reply number {context.turn + 1} for {who}")
        return _reply(ScriptedReply(calls=(ScriptedCall(name="finish"),)), context.turn)

    async def close(self) -> None:
        """Nothing to release."""


def _reply(reply: ScriptedReply, turn: int) -> Reply:
    calls = tuple(
        ToolRequest(
            id=call.id or f"call_{turn + 1}_{position + 1}",
            name=call.name,
            arguments=call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments),
        )
        for position, call in enumerate(reply.calls)
    )
    return Reply(
        content=reply.text,
        reasoning=reply.reasoning,
        tool_calls=calls,
        finish_reason=reply.finish_reason or ("tool_calls" if calls else "stop"),
        prompt_tokens=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        completion_tokens=reply.completion_tokens,
    )
