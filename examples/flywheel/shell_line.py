"""Agents for a model that writes a shell command and nothing else: each of its answers is one line for the sandbox.

Both are the harness's own tool-calling agent. Only how an answer becomes a call differs: the text of the answer is the
command of `bash`, and `exit` is `finish`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from family import FILES, KEY_LENGTH, LETTERS

from harness.agents.tool_calling.config import LoopConfig, ToolCallingConfig
from harness.agents.tool_calling.loop import ToolCallingAgent
from harness.llm.openai_chat import OpenAIChat
from harness.llm.protocol import CallContext, ChatModel, Message, Reply, ToolRequest, ToolSchema

NO_PROMPT = " "
"""In place of the built-in system prompt, which is longer than all else that this model reads."""


def policy(**settings: Any) -> ToolCallingAgent:
    """The agent behind an endpoint; its settings are those of `type = "tool_calling"`."""
    config = ToolCallingConfig.model_validate({"system_prompt": NO_PROMPT, **settings})
    return ToolCallingAgent(config, CommandModel(OpenAIChat(config.endpoint())), name="shell-line")


def demonstrator(expert_share: float = 0.4, max_turns: int = 5) -> ToolCallingAgent:
    """Solves the task in `expert_share` of its attempts, and types sensible commands at random in all others."""
    config = LoopConfig(system_prompt=NO_PROMPT, max_turns=max_turns)
    return ToolCallingAgent(config, CommandModel(Demonstrator(expert_share)), name="demonstrator")


class CommandModel:
    """A chat model whose text is turned into a call."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.name = model.name

    @property
    def sampling(self) -> Mapping[str, Any]:
        return self._model.sampling

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema], context: CallContext) -> Reply:
        reply = await self._model.complete(messages, (), context)
        line = reply.content.strip()
        if not line:
            return reply
        name, arguments = ("finish", {}) if line == "exit" else ("bash", {"command": line})
        call = ToolRequest(id=f"call_{context.turn}", name=name, arguments=json.dumps(arguments))
        return replace(reply, tool_calls=(call,))

    async def close(self) -> None:
        await self._model.close()


class Demonstrator:
    """A chat model that follows a plan of its own, drawn for the run's seed."""

    name = "demonstrator"
    sampling: Mapping[str, Any] = {}

    def __init__(self, expert_share: float) -> None:
        self._expert_share = expert_share

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema], context: CallContext) -> Reply:
        plan = random.Random(context.seed)
        expert = plan.random() < self._expert_share
        order = plan.sample(FILES, len(FILES))
        outputs = [message.content.splitlines()[0] for message in messages if message.role == "tool"]
        said = [message.content for message in messages if message.role == "assistant"]
        key = next((each for each in outputs if len(each) == KEY_LENGTH and set(each) <= set(LETTERS)), None)
        if expert:
            return Reply(content=_next_step(order, said, key))
        chance = random.Random(f"{context.seed}/{context.turn}")
        guess = key or "".join(chance.choice(LETTERS) for _ in range(KEY_LENGTH))
        return Reply(content=chance.choice([f"cat {chance.choice(FILES)}", f"echo {guess}>k", "exit"]))

    async def close(self) -> None:
        """Nothing is held."""


def _next_step(order: Sequence[str], said: Sequence[str], key: str | None) -> str:
    if key is None:
        return f"cat {order[len(said) % len(order)]}"
    return "exit" if said[-1].startswith("echo") else f"echo {key}>k"
