"""Whom a fresh model imitates before it can learn from its own attempts: `--agent demonstrator:demonstrator`.

It solves the task in a share of its attempts, and types sensible commands at random in all others, so that the model
that imitates it knows how commands are written and how a key is copied, and does the right thing now and then.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from family import FILES, KEY_LENGTH, LETTERS

from harness.agents.tool_calling.config import LoopConfig
from harness.agents.tool_calling.loop import ToolCallingAgent
from harness.llm.protocol import CallContext, Message, Reply, ToolRequest, ToolSchema

MAX_TURNS = 5
NO_PROMPT = " "
"""In place of the built-in system prompt, which is longer than all else that the model reads."""


def demonstrator(expert_share: float = 0.4) -> ToolCallingAgent:
    """The harness's own agent, with a plan in the place of a model."""
    config = LoopConfig(system_prompt=NO_PROMPT, max_turns=MAX_TURNS)
    return ToolCallingAgent(config, Plan(expert_share), name="demonstrator")


class Plan:
    """A chat model whose answers follow from the run's seed and from what the commands gave."""

    name = "demonstrator"
    sampling: Mapping[str, Any] = {}

    def __init__(self, expert_share: float) -> None:
        self._expert_share = expert_share

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema], context: CallContext) -> Reply:
        plan = random.Random(context.seed)
        expert = plan.random() < self._expert_share
        order = plan.sample(FILES, len(FILES))
        outputs = [message.content.partition("\n")[0] for message in messages if message.role == "tool"]
        key = next((each for each in outputs if len(each) == KEY_LENGTH and set(each) <= set(LETTERS)), None)
        if expert:
            command = _next_step(order, outputs, key)
        else:
            command = _anything(random.Random(f"{context.seed}/{context.turn}"), key)
        name, arguments = ("bash", {"command": command}) if command else ("finish", {"summary": "done"})
        return Reply(tool_calls=(ToolRequest(id=f"call_{context.turn}", name=name, arguments=json.dumps(arguments)),))

    async def close(self) -> None:
        """Nothing is held."""


def _next_step(order: Sequence[str], outputs: Sequence[str], key: str | None) -> str | None:
    """Look into one file after the other until the key is there, copy it, finish."""
    if key is None:
        return f"cat {order[len(outputs) % len(order)]}"
    return None if outputs[-1] != key else f"echo {key}>k"


def _anything(chance: random.Random, key: str | None) -> str | None:
    guess = key or "".join(chance.choice(LETTERS) for _ in range(KEY_LENGTH))
    return chance.choice([f"cat {chance.choice(FILES)}", f"echo {guess}>k", None])
