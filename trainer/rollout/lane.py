"""Generations that one version of the weights works on together: each step reads on in all of them.

New ones join and finished ones leave between steps. A prompt is read in pieces, so that a long one does not hold up the
others; what an earlier sequence began with in the same way is not read again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainer.policy.huggingface import HuggingFacePolicy
from trainer.policy.rows import Rows
from trainer.rollout.prefix import Prefixes, shared
from trainer.rollout.sampling import LogprobsMode, sample
from trainer.rollout.sequence import Generation

_PIECE = 512
"""Tokens of prompts that one step reads, padding included."""
_WORTH_WAITING = 16
"""For so many tokens that are just being read by another, a new sequence waits."""


class Lane:
    """See the module. It is made in any thread, and belongs to the engine's from then on."""

    def __init__(self, policy: HuggingFacePolicy, version: str, *, mode: LogprobsMode, room: int) -> None:
        """`room` is the memory for sequences that have ended, in bytes. Raises UsageError, see Rows."""
        self.policy, self.version = policy, version
        self._rows = Rows(policy)
        self._mode = mode
        self._prefixes = Prefixes(room, self._rows.bytes_per_token)
        self.running: list[Generation] = []
        """By row."""

    def join(self, generation: Generation) -> bool:
        """Take a generation in; False where it had better wait until another one has read what both begin with."""
        tokens = generation.tokens
        stored, length = self._prefixes.find(tokens)
        source = None
        for row, other in enumerate(self.running):
            common = shared(other.tokens, tokens)
            if min(common, other.read) > length:
                source, length = row, min(common, other.read)
            if common > length + _WORTH_WAITING:
                return False
        length = min(length, len(tokens) - 1)  # the last one has to be read for what comes after it
        row = len(self.running)
        if source is not None:
            self._rows.copy(source, row, length)
        elif stored is not None:
            self._rows.restore(row, stored, length)
        generation.read = length
        if generation.cached is None:
            generation.cached = length
        self.running.append(generation)
        return True

    def step(self) -> list[Generation]:
        """Sample one token wherever everything before it is read; those that ended have left."""
        ready = [(row, 1) for row, each in enumerate(self.running) if each.unread == 1]
        pieces = self._pieces()
        for part in (ready, pieces):
            if part:
                self._advance(part)
        ended = [each for each in self.running if each.finish is not None]
        for each in ended:
            self.leave(each)
        return ended

    def leave(self, generation: Generation) -> None:
        """Take a generation out, and remember what it has read."""
        row, last = self.running.index(generation), len(self.running) - 1
        held = generation.tokens[: generation.read]
        if self._prefixes.wants(held):
            self._prefixes.put(held, self._rows.store(row, generation.read))
        if row != last:
            self._rows.copy(last, row, self.running[last].read)
            self.running[row] = self.running[last]
        self.running.pop()
        generation.read = 0

    def clear(self) -> list[Generation]:
        """Forget everything; what was running."""
        left, self.running = self.running, []
        self._rows.clear()
        for each in left:
            each.read = 0
        return left

    def _pieces(self) -> list[tuple[int, int]]:
        """(row, tokens) of prompts for this step, in the order in which they came."""
        chosen: list[tuple[int, int]] = []
        widest = 0
        for row, each in enumerate(self.running):
            if each.unread > 1:
                piece = min(each.unread, _PIECE)
                if chosen and max(widest, piece) * (len(chosen) + 1) > _PIECE:
                    continue
                widest = max(widest, piece)
                chosen.append((row, piece))
        return chosen

    def _advance(self, part: Sequence[tuple[int, int]]) -> None:
        working = [self.running[row] for row, _ in part]
        pieces = [each.tokens[each.read : each.read + count] for each, (_, count) in zip(working, part, strict=True)]
        logits = self._rows.read([row for row, _ in part], [each.read for each in working], pieces)
        for each, (_, count) in zip(working, part, strict=True):
            each.read += count
        done = [index for index, each in enumerate(working) if each.unread == 0]
        if not done:
            return
        sampling = [working[index] for index in done]
        draws = [each.random.random() for each in sampling]
        kept = logits if len(done) == len(working) else logits[done]
        ids, logprobs = sample(kept, [each.sampling for each in sampling], draws, self._mode)
        for each, token, logprob in zip(sampling, ids, logprobs, strict=True):
            if math.isfinite(logprob):
                each.add(token, logprob, self.version)
            else:
                each.fail("the weights give log-probabilities that are not finite")
