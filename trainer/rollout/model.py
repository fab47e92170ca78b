"""The model as requests see it: what they ask becomes a prompt, what was sampled becomes an answer."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainer.policy.huggingface import HuggingFacePolicy
from trainer.rollout.answer import Answer, Head
from trainer.rollout.asked import ChatRequest, CompletionRequest, Refused, chat_request, completion_request
from trainer.rollout.dialect import Dialect, Unwritable
from trainer.rollout.form import Chat, Completion, Form
from trainer.rollout.sampling import Sampling
from trainer.rollout.sequence import STOP, Generation
from trainer.rollout.text import Text
from trainer.rollout.turns import Turns

_NO_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request that can be worked on.

    Attributes:
        text: follows the answer while it is sampled; None where nobody needs that.
        answer: makes the answer out of the generation that ended.
    """

    head: Head
    form: Form
    prompt: list[int]
    sampling: Sampling
    ends: frozenset[int]
    text: Text | None
    stream: bool
    wants_usage: bool
    answer: Callable[[Generation], Answer]


class ServedModel:
    """See the module."""

    def __init__(self, name: str, policy: HuggingFacePolicy, *, window: int | None = None) -> None:
        """`window` shortens the model's own. Raises UsageError for a model without a tokenizer."""
        self.name = name
        self.dialect = Dialect(policy.tokenizer)
        self.window = min(window or _NO_LIMIT, policy.max_tokens or _NO_LIMIT)
        self._vocabulary = policy.vocab_size
        self._ends = _ends_of(policy)
        self._turns = Turns(self.dialect, self._ends)

    def chat(self, body: Mapping[str, Any]) -> Job:
        """A chat. Raises Refused."""
        request = chat_request(body)
        self._require_name(request)
        if not self.dialect.chats:
            raise Refused(400, f"the model {self.name!r} has no chat template: ask /v1/completions")
        messages, tools = request.conversation()
        try:
            prompt = self._turns.prompt(messages, tools)
        except Unwritable as error:
            raise Refused(400, str(error)) from error
        head = self._head("chatcmpl")
        text = self._text(request, calls=bool(tools))

        def answer(generation: Generation) -> Answer:
            content, calls = self.dialect.parse(self._said(generation, text), tools)
            told = Answer(head=head, generation=generation, content=content, calls=calls)
            if text is None or not text.stopped:
                self._turns.remember(messages, tools, told.message(), generation.tokens)
            return told

        return self._job(request, head, Chat(), prompt, text, answer)

    def completion(self, body: Mapping[str, Any]) -> Job:
        """A completion. Raises Refused."""
        request = completion_request(body)
        self._require_name(request)
        prompt: Any = request.prompt
        ids: list[int] = self.dialect.tokenize(prompt, special=True) if isinstance(prompt, str) else prompt
        head, text = self._head("cmpl"), self._text(request, calls=False)
        return self._job(
            request,
            head,
            Completion(),
            ids,
            text,
            lambda generation: Answer(head=head, generation=generation, content=self._said(generation, text)),
        )

    def _job(
        self,
        request: ChatRequest | CompletionRequest,
        head: Head,
        form: Form,
        prompt: list[int],
        text: Text | None,
        answer: Callable[[Generation], Answer],
    ) -> Job:
        self._require_prompt(prompt)
        return Job(
            head=head,
            form=form,
            prompt=prompt,
            sampling=request.sampling(request.limit, self.window - len(prompt)),
            ends=frozenset(request.stop_token_ids) | (frozenset() if request.ignore_eos else self._ends),
            text=text,
            stream=request.stream,
            wants_usage=request.wants_usage,
            answer=answer,
        )

    def _head(self, kind: str) -> Head:
        return Head(id=f"{kind}-{uuid.uuid4().hex}", model=self.name, created=int(time.time()))

    def _text(self, request: ChatRequest | CompletionRequest, *, calls: bool) -> Text | None:
        if not (request.stream or request.stop):
            return None
        return Text(self.dialect, request.stop, marker=self.dialect.marker if calls else None)

    def _said(self, generation: Generation, text: Text | None) -> str:
        if text is not None:
            text.end()
            return text.said
        sampled = generation.sampled
        ended = generation.finish == STOP and len(sampled) and sampled[-1] in generation.ends
        return self.dialect.decode(sampled[:-1] if ended else sampled)

    def _require_name(self, request: ChatRequest | CompletionRequest) -> None:
        if request.model not in ("", self.name):
            raise Refused(
                404,
                f"the model {request.model[:100]!r} does not exist: this server has {self.name!r}",
                code="model_not_found",
            )

    def _require_prompt(self, prompt: list[int]) -> None:
        if not prompt:
            raise Refused(400, "the prompt is empty")
        if len(prompt) >= self.window:
            raise Refused(
                400,
                f"This model's maximum context length is {self.window} tokens, and the prompt has {len(prompt)}.",
                code="context_length_exceeded",
            )
        if not all(0 <= token < self._vocabulary for token in prompt):
            raise Refused(400, f"prompt: token ids lie between 0 and {self._vocabulary - 1}")


def _ends_of(policy: HuggingFacePolicy) -> frozenset[int]:
    """The tokens that end an answer, by all that the model came with."""
    told = (
        getattr(policy.model.generation_config, "eos_token_id", None),
        policy.model.config.get_text_config().eos_token_id,
        policy.tokenizer.eos_token_id,
    )
    found: set[int] = set()
    for each in told:
        found |= set(each) if isinstance(each, list | tuple) else set() if each is None else {int(each)}
    return frozenset(found)
