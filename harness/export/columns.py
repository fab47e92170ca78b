"""The token columns of a branch: mask, log-probabilities, policy versions and chunks, all as long as its tokens."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from math import nan
from typing import Any

from harness.export.schema import Span
from harness.export.tokens import MASKED, SAMPLED, Branch, constant
from harness.export.turns import Turn, Turns
from harness.store.rollout.call import SampledCall


@dataclass(frozen=True, slots=True)
class Columns:
    """One row's columns; see `RLSample`."""

    token_ids: array[int]
    loss_mask: array[int]
    logprobs: array[float]
    policy_index: array[int]
    policy_versions: tuple[str, ...]
    chunk_ids: array[int]
    spans: tuple[Span, ...]

    @property
    def trained(self) -> int:
        """Tokens in the loss."""
        return sum(span.end - span.start for span in self.spans if span.kind == SAMPLED)


def columns_of(
    branch: Branch,
    *,
    trainable: bool,
    policy_version: str | None,
    with_logprobs: bool = True,
    turns: Turns | None = None,
) -> Columns:
    """The columns of a branch. `policy_version` is the job's own, for calls that tell none.

    `turns` is what the trajectory tells of them. `with_logprobs` False is for tokens that nobody sampled: they may be
    in the loss without a log-probability.
    """
    length = len(branch.tokens)
    mask, logprobs = constant("b", 0, length), constant("f", nan, length)
    policy, chunks = constant("h", -1, length), constant("i", -1, length)
    versions: dict[str, int] = {}
    spans = []
    chunk = -1
    for segment in branch.segments:
        size, call = segment.end - segment.start, segment.call
        if call is None or not size:
            if size:
                spans.append(Span(start=segment.start, end=segment.end, kind=segment.kind))
            continue
        chunk += 1
        here = slice(segment.start, segment.end)
        chunks[here] = constant("i", chunk, size)
        _put_versions(policy, segment.start, size, call, versions, policy_version)
        kind = segment.kind if trainable or segment.kind != SAMPLED else MASKED
        if kind == SAMPLED:
            mask[here] = constant("b", 1, size)
            if with_logprobs:
                logprobs[here] = _floats(call.logprobs)
        turn = (turns or {}).get((call.session, call.step_id))
        spans.append(_span(segment.start, segment.end, kind, chunk, call, turn))
    return Columns(branch.tokens, mask, logprobs, policy, tuple(versions), chunks, tuple(spans))


def _put_versions(
    policy: array[int], start: int, size: int, call: SampledCall, versions: dict[str, int], default: str | None
) -> None:
    runs = call.version_runs
    if runs is None or sum(count for _, count in runs) < size:
        version = call.policy_version if call.policy_version is not None else default
        runs = () if version is None else ((version, size),)
    end = start + size
    for version, count in runs:
        index = versions.setdefault(version, len(versions))
        stop = min(end, start + count)
        policy[start:stop] = constant("h", index, stop - start)
        start = stop


def _span(start: int, end: int, kind: str, chunk: int, call: SampledCall, turn: Turn | None) -> Span:
    return Span(
        start=start,
        end=end,
        kind=kind,
        chunk=chunk,
        call_id=call.call_id,
        session=call.session,
        step_id=call.step_id,
        finish_reason=call.finish_reason,
        temperature=_number(call.sampling.get("temperature")),
        tools=None if turn is None else turn.tools,
        tool_errors=None if turn is None else turn.tool_errors,
    )


def _floats(values: Any) -> array[float]:
    return values if isinstance(values, array) and values.typecode == "f" else array("f", values)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
