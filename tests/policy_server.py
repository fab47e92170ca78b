"""A policy on loopback that samples tokens: a chat template over bytes, scripted answers, three servers' dialects.

One token is one byte of the template's text; what ends a message is token 256, and the roles are 257 and up. So what a
later prompt says of an answer is exactly what was sampled, unless the history itself changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from model_server import Answer, completion

END = 256
ROLES = {"system": 257, "user": 258, "assistant": 259, "tool": 260}


def said(message: Mapping[str, Any]) -> list[int]:
    """A message without its role, its end included."""
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()]
    text = (message.get("content") or "") + (json.dumps(calls) if calls else "")
    return [*text.encode(), END]


def prompt_of(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """What the model reads before it answers."""
    return [token for each in messages for token in (ROLES[each["role"]], *said(each))] + [ROLES["assistant"]]


@dataclass
class Policy:
    """Answers in order: (text, calls) each; the last one again and again. It remembers what it sampled.

    `dialect` is "vllm", "sglang", "llama.cpp", or "text" for a server that tells no tokens. With `each_alone` every
    conversation is answered in order, whatever others ask meanwhile.
    """

    answers: Sequence[tuple[str, Sequence[tuple[str, str, str]]]]
    dialect: str = "vllm"
    version: str | None = "step-7"
    each_alone: bool = False
    sampled: list[tuple[list[int], list[int], list[float]]] = field(default_factory=list)

    def __call__(self, request: Mapping[str, Any]) -> Answer:
        earlier = sum(each["role"] == "assistant" for each in request["messages"])
        number = earlier if self.each_alone else len(self.sampled)
        text, calls = self.answers[min(number, len(self.answers) - 1)]
        answer = completion(text, calls=calls, usage={"prompt_tokens": 1, "completion_tokens": 1})
        choice = answer.body["choices"][0]
        prompt = prompt_of(request["messages"])
        ids = said(choice["message"])
        logprobs = [-((token % 16) + 1) / 16 for token in ids]
        self.sampled.append((prompt, ids, logprobs))
        headers = {"x-policy-version": self.version} if self.version and self.dialect == "vllm" else {}
        content = [{"token": "", "logprob": value} for value in logprobs]
        if self.dialect == "vllm":
            answer.body["prompt_token_ids"] = prompt
            choice |= {"token_ids": ids, "logprobs": {"content": content}}
        elif self.dialect == "sglang":
            triples = [[value, token, None] for value, token in zip(logprobs, ids, strict=True)]
            choice |= {"prompt_token_ids": prompt, "meta_info": {"output_token_logprobs": triples}, "matched_stop": END}
            answer.body["metadata"] = {"weight_version": self.version or "default"}
        elif self.dialect == "llama.cpp":
            entries = [{"id": token, **each} for token, each in zip(ids, content, strict=True)]
            choice["logprobs"] = {"content": entries}
            answer.body["timings"] = {"predicted_n": len(ids)}
        return Answer(body=answer.body, headers=headers)
