"""The calls of one attempt become branches, by exact prefix; the only place where tokens get their mask.

A call whose prompt begins with everything that a branch holds *extends* it: what the prompt adds was read, what the
call sampled is trained. Otherwise a new branch starts; what it has in common with an older one, sampled tokens
included, is context there. So each sampled token is trained in exactly one row, the one that its call started or
extended, and no token is ever written anew.

Where only the end of the latest response differs (the chat template spells it in another way when it is history), the
older branch is complete and the new one goes on: that is a fork, too, and costs a row. `realign_below` trades tokens
for rows: a response shorter than that is replaced by its new spelling within its branch, and is not trained.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.export.faults import UNPLACED, fault_of
from harness.store.rollout.call import SampledCall
from harness.store.rollout.prefix import shared_prefix

CONTEXT, SAMPLED, ELSEWHERE, REALIGNED, INVALID, MASKED = (
    *("context", "sampled", "trained_elsewhere", "realigned", "invalid", "masked"),
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch [start, end) of a branch; `call` sampled it, None for context. `fault` is why it is invalid."""

    start: int
    end: int
    kind: str
    call: SampledCall | None = None
    fault: str | None = None


@dataclass(slots=True)
class Branch:
    """One path from the first token to the last."""

    session: str
    tokens: array[int]
    segments: list[Segment]

    @property
    def last(self) -> Segment:
        """The latest response."""
        return next(each for each in reversed(self.segments) if each.call is not None)

    @property
    def calls(self) -> list[SampledCall]:
        """The calls whose responses are in this branch, in order, those trained elsewhere included."""
        return [each.call for each in self.segments if each.call is not None]


@dataclass(slots=True)
class Conversation:
    """All branches of one attempt, and what was met on the way.

    Attributes:
        counts: "calls", "extended", "realigned" with the tokens that are not trained for it, "forked", and forks by
            what made them: "fork:session" (a sub-agent begins), "fork:respelled" (the latest response is spelled in
            another way), "fork:resampled" (the same prompt again), "fork:shortened" (old turns were removed) and
            "fork:rewritten" (anything else in the history changed).
        faults: calls by what is wrong with them.
    """

    branches: list[Branch] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)


def branch(calls: Iterable[SampledCall], *, realign_below: int = 0, with_logprobs: bool = True) -> Conversation:
    """Put the calls of one attempt, in the order in which they were made, into branches.

    `with_logprobs` False is for ids that nobody sampled: to have none is then no fault.
    """
    conversation = Conversation()
    for call in calls:
        conversation.counts["calls"] += 1
        fault = fault_of(call, with_logprobs=with_logprobs)
        if fault is not None:
            conversation.faults[fault] += 1
        if fault not in UNPLACED:
            prompt, completion = as_ids(call.prompt_ids), as_ids(call.completion_ids)
            response = Segment(
                start=len(prompt),
                end=len(prompt) + len(completion),
                kind=INVALID if fault else SAMPLED,
                call=replace(call, prompt_ids=None),  # or a branch would keep as many prompts as it has calls
                fault=fault,
            )
            _place(conversation, call.session, prompt, prompt + completion, response, realign_below)
    return conversation


def _place(
    conversation: Conversation,
    session: str,
    prompt: array[int],
    tokens: array[int],
    response: Segment,
    realign_below: int,
) -> None:
    nearest, shared = _nearest(conversation.branches, prompt)
    if nearest is not None and shared == len(nearest.tokens):
        conversation.counts["extended"] += 1
        nearest.tokens = tokens
        nearest.segments += [*_context(shared, len(prompt)), response]
        return
    if nearest is not None and _is_respelled(nearest, session, shared, len(prompt), realign_below):
        last = nearest.last
        conversation.counts["realigned"] += 1
        conversation.counts["realigned_tokens"] += last.end - last.start if last.kind == SAMPLED else 0
        kept = [each for each in nearest.segments if each.end <= last.start]
        nearest.tokens = tokens
        nearest.segments = [*kept, *_context(last.start, len(prompt), REALIGNED), response]
        return
    if conversation.branches:
        conversation.counts["forked"] += 1
        conversation.counts[f"fork:{_why(conversation.branches, session, nearest, shared, len(prompt))}"] += 1
    inherited = _inherited(nearest, shared) if nearest is not None else []
    conversation.branches.append(Branch(session, tokens, [*inherited, *_context(shared, len(prompt)), response]))


def _context(start: int, end: int, kind: str = CONTEXT) -> list[Segment]:
    return [Segment(start, end, kind)] if end > start else []


def _is_respelled(nearest: Branch, session: str, shared: int, length: int, below: int) -> bool:
    """Whether a prompt goes on where a branch is, but for how it spells that branch's latest, short response."""
    last = nearest.last
    return session == nearest.session and last.start <= shared and last.start < length and last.end - last.start < below


def _nearest(branches: Sequence[Branch], prompt: array[int]) -> tuple[Branch | None, int]:
    """The branch that shares most with a prompt, the latest one first, and how much that is."""
    best, most = None, 0
    for each in reversed(branches):
        shared = shared_prefix(each.tokens, prompt)
        if shared == len(each.tokens):
            return each, shared
        if shared > most:
            best, most = each, shared
    return best, most


def _inherited(nearest: Branch, shared: int) -> list[Segment]:
    """What a new branch has in common with an older one, where it is trained."""
    found = []
    for each in nearest.segments:
        if each.start < shared:
            kind = ELSEWHERE if each.kind == SAMPLED else each.kind
            found.append(Segment(each.start, min(each.end, shared), kind, each.call, each.fault))
    return found


def _why(branches: Sequence[Branch], session: str, nearest: Branch | None, shared: int, length: int) -> str:
    """Why a call with a prompt of this length can not extend what is there."""
    if nearest is None or session != nearest.session:
        return "rewritten" if any(each.session == session for each in branches) else "session"
    if shared >= nearest.last.start:
        return "respelled" if length > nearest.last.start else "resampled"
    return "shortened" if length < len(nearest.tokens) else "rewritten"


def as_ids(ids: Sequence[int] | None) -> array[int]:
    """Token ids as a column."""
    return ids if isinstance(ids, array) and ids.typecode == "i" else array("i", ids or ())


def constant(code: str, value: Any, length: int) -> array[Any]:
    """A column of one value."""
    return array(code, [value]) * length
