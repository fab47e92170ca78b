"""One generation on its way: what was read, what was sampled, and by which weights."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from trainer.rollout.sampling import Sampling

STOP, LENGTH, ERROR = "stop", "length", "error"


@dataclass(eq=False, slots=True)
class Generation:
    """What the engine works on.

    Attributes:
        tokens: the prompt, and what was sampled after it.
        prompt_length: how many of them are the prompt.
        ends: tokens that end the answer; the one that did is its last token.
        on_token: called by the engine's thread after each token; whether the answer ends here ("stop").
        on_end: called by the engine's thread, once.
        logprobs: of the sampled tokens.
        versions: [version of the weights, tokens that they sampled], in order.
        read: tokens whose keys and values are in the batch.
        cached: tokens of the prompt that needed no reading.
        finish: "stop", "length" or "error", once it has ended; `trouble` says what the error was.
        abandoned: nobody waits for it any more.
    """

    tokens: array[int]
    sampling: Sampling
    ends: frozenset[int]
    on_end: Callable[[Generation], None]
    on_token: Callable[[Generation], bool] | None = None
    prompt_length: int = 0
    logprobs: list[float] = field(default_factory=list)
    versions: list[tuple[str, int]] = field(default_factory=list)
    read: int = 0
    cached: int | None = None
    finish: str | None = None
    trouble: str = ""
    abandoned: bool = False
    random: Random = field(default_factory=Random)

    @classmethod
    def of(
        cls,
        prompt: Iterable[int],
        sampling: Sampling,
        ends: frozenset[int],
        on_end: Callable[[Generation], None],
        on_token: Callable[[Generation], bool] | None = None,
    ) -> Generation:
        """A generation that has not begun."""
        tokens = array("i", prompt)
        return cls(tokens, sampling, ends, on_end, on_token, len(tokens), random=Random(sampling.seed))  # noqa: S311

    @property
    def prompt(self) -> array[int]:
        """What was there before."""
        return self.tokens[: self.prompt_length]

    @property
    def sampled(self) -> array[int]:
        """The answer so far."""
        return self.tokens[self.prompt_length :]

    @property
    def unread(self) -> int:
        """Tokens that the model has yet to read before it can sample the next one."""
        return len(self.tokens) - self.read

    def add(self, token: int, logprob: float, version: str) -> None:
        """Take what was sampled, and end where the answer ends."""
        self.tokens.append(token)
        self.logprobs.append(logprob)
        if self.versions and self.versions[-1][0] == version:
            self.versions[-1] = (version, self.versions[-1][1] + 1)
        else:
            self.versions.append((version, 1))
        stopped = self.on_token is not None and self.on_token(self)
        if stopped or token in self.ends:
            self.finish = STOP
        elif len(self.logprobs) >= self.sampling.max_tokens:
            self.finish = LENGTH

    def fail(self, trouble: str) -> None:
        """End without an answer."""
        self.finish, self.trouble = ERROR, trouble
