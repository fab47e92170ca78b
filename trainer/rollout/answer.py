"""A generation that has ended, as it is told: what was said, what was called, and what was sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainer.rollout.dialect import Call
from trainer.rollout.sequence import STOP, Generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What is the same in all parts of an answer."""

    id: str
    model: str
    created: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """See the module."""

    head: Head
    generation: Generation
    content: str
    calls: Sequence[Call] = ()

    @property
    def finish(self) -> str:
        """In OpenAI's words."""
        return "tool_calls" if self.calls and self.generation.finish == STOP else str(self.generation.finish)

    def message(self) -> dict[str, Any]:
        """As the assistant's message; each call has an id of its own."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content or (None if self.calls else "")}
        if self.calls:
            name = self.head.id.rpartition("-")[2]
            message["tool_calls"] = [
                {
                    "id": f"call_{name}_{index}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for index, call in enumerate(self.calls)
            ]
        return message

    def usage(self) -> dict[str, Any]:
        """Tokens."""
        given, made = self.generation.prompt_length, len(self.generation.logprobs)
        return {
            "prompt_tokens": given,
            "completion_tokens": made,
            "total_tokens": given + made,
            "prompt_tokens_details": {"cached_tokens": self.generation.cached or 0},
        }

    def versions(self) -> dict[str, Any]:
        """The version of the weights that began; where there were several, each with the tokens that it sampled."""
        runs = self.generation.versions
        several = {"policy_version_runs": [list(each) for each in runs]} if len(runs) > 1 else {}
        return {"policy_version": runs[0][0], **several} if runs else {}
