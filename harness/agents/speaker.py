"""A simulated user that a model speaks for: it is told what the task's script knows, and puts it into its own words."""

from __future__ import annotations

from harness.atif.model import Metrics
from harness.atif.usage import Usage
from harness.llm.protocol import CallContext, ChatModel, ContextOverflow, Message
from harness.records import AgentUsage
from harness.task.interaction import Answer

ANSWER_SEC = 120.0
"""Seconds for one answer, retries included."""

_SYSTEM = """\
You play the user of an assistant, who asks you a question. You know only the facts below. Each stands with the pattern,
a regular expression, of the questions that it answers. If a fact answers the question, say it briefly, with its names,
numbers and codes unchanged, and say nothing else that you know. If none does, answer with exactly this text:
{default}

{facts}"""


class ModelSpeaker:
    """Speaks for the user of one trial."""

    def __init__(self, model: ChatModel, *, task_name: str, seed: int) -> None:
        self._model = model
        self._task_name = task_name
        self._seed = seed
        self._usage = Usage()

    async def answer(self, question: str, known: list[Answer], default: str) -> str:
        """The model's words; `default` where it has none. Raises ModelError."""
        facts = "\n".join(f"- {each.when.pattern}: {each.say}" for each in known) or "(you know nothing)"
        context = CallContext(
            task_name=self._task_name,
            turn=self._usage.calls,
            seed=self._seed,
            time_left=ANSWER_SEC,
            subagent="user",
        )
        messages = [
            Message(role="system", content=_SYSTEM.format(default=default, facts=facts)),
            Message(role="user", content=question),
        ]
        try:
            reply = await self._model.complete(messages, (), context)
        except ContextOverflow:
            return default
        metrics = Metrics(
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            cached_tokens=reply.cached_tokens,
            cost_usd=reply.cost_usd,
        )
        self._usage = self._usage.plus_calls(metrics)
        return reply.content.strip() or default

    def usage(self) -> AgentUsage:
        """What its answers cost so far."""
        return AgentUsage.of(self._usage)
