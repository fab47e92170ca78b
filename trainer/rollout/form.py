"""OpenAI's two forms of an answer, whole and streamed, with what was sampled told as vLLM tells it.

Every answer has `prompt_token_ids`, `token_ids`, a log-probability for each token, and the version of the weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from trainer.rollout.answer import Answer, Head

Json = dict[str, Any]
Piece = Callable[[int], str]


class Form(Protocol):
    """How an answer is told; `piece` is a token's text."""

    def body(self, answer: Answer, piece: Piece) -> Json:
        """All of it."""

    def opening(self, head: Head, prompt: Sequence[int]) -> Json:
        """A stream's first part."""

    def part(self, head: Head, text: str, ids: Sequence[int], logprobs: Sequence[float], piece: Piece) -> Json:
        """What was sampled since."""

    def closing(self, answer: Answer, rest: str) -> Json:
        """The last part, with the `rest` of the text."""

    def usage(self, answer: Answer) -> Json:
        """What may follow the last part."""


class Chat:
    """/v1/chat/completions."""

    def body(self, answer: Answer, piece: Piece) -> Json:
        ids, logprobs = list(answer.generation.sampled), answer.generation.logprobs
        choice = {
            "index": 0,
            "message": answer.message(),
            "logprobs": _entries(ids, logprobs, piece),
            "finish_reason": answer.finish,
            "token_ids": ids,
        }
        return {
            **_top(answer.head, "chat.completion"),
            "prompt_token_ids": list(answer.generation.prompt),
            **answer.versions(),
            "choices": [choice],
            "usage": answer.usage(),
        }

    def opening(self, head: Head, prompt: Sequence[int]) -> Json:
        return self._chunk(head, {"role": "assistant", "content": ""}) | {"prompt_token_ids": list(prompt)}

    def part(self, head: Head, text: str, ids: Sequence[int], logprobs: Sequence[float], piece: Piece) -> Json:
        told = {"content": text} if text else {}
        return self._chunk(head, told, logprobs=_entries(ids, logprobs, piece), token_ids=list(ids))

    def closing(self, answer: Answer, rest: str) -> Json:
        delta: Json = {"content": rest} if rest else {}
        if answer.calls:
            calls = answer.message()["tool_calls"]
            delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
        return self._chunk(answer.head, delta, finish=answer.finish) | answer.versions()

    def usage(self, answer: Answer) -> Json:
        return {**_top(answer.head, "chat.completion.chunk"), "choices": [], "usage": answer.usage()}

    @staticmethod
    def _chunk(head: Head, delta: Json, *, finish: str | None = None, **more: Any) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, **more}
        return {**_top(head, "chat.completion.chunk"), "choices": [choice]}


class Completion:
    """/v1/completions."""

    def body(self, answer: Answer, piece: Piece) -> Json:
        ids = list(answer.generation.sampled)
        choice = {
            "index": 0,
            "text": answer.content,
            "logprobs": _columns(ids, answer.generation.logprobs, piece),
            "finish_reason": answer.finish,
            "token_ids": ids,
            "prompt_token_ids": list(answer.generation.prompt),
        }
        top = _top(answer.head, "text_completion")
        return {**top, **answer.versions(), "choices": [choice], "usage": answer.usage()}

    def opening(self, head: Head, prompt: Sequence[int]) -> Json:
        return self._chunk(head, "", prompt_token_ids=list(prompt))

    def part(self, head: Head, text: str, ids: Sequence[int], logprobs: Sequence[float], piece: Piece) -> Json:
        return self._chunk(head, text, logprobs=_columns(ids, logprobs, piece), token_ids=list(ids))

    def closing(self, answer: Answer, rest: str) -> Json:
        return self._chunk(answer.head, rest, finish=answer.finish) | answer.versions()

    def usage(self, answer: Answer) -> Json:
        return {**_top(answer.head, "text_completion"), "choices": [], "usage": answer.usage()}

    @staticmethod
    def _chunk(head: Head, text: str, *, finish: str | None = None, **more: Any) -> Json:
        choice = {"index": 0, "text": text, "finish_reason": finish, **more}
        return {**_top(head, "text_completion"), "choices": [choice]}


def event(chunk: Json) -> bytes:
    """A part as it travels."""
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def _top(head: Head, kind: str) -> Json:
    return {"id": head.id, "object": kind, "created": head.created, "model": head.model}


def _entries(ids: Sequence[int], logprobs: Sequence[float], piece: Piece) -> Json:
    pairs = zip(ids, logprobs, strict=True)
    return {"content": [{"token": piece(token), "logprob": value, "top_logprobs": []} for token, value in pairs]}


def _columns(ids: Sequence[int], logprobs: Sequence[float], piece: Piece) -> Json:
    return {"tokens": [piece(token) for token in ids], "token_logprobs": list(logprobs), "top_logprobs": None}
