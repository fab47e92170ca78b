"""What attempts did beside their tokens: the tools they called, and turns whose calls failed."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from harness.export.schema import RLSample, Span
from trainer.samples.rollouts import Group, Rollout

_LONGEST = 64
"""Calls of an attempt that are compared; comparing costs the square of it."""
_ELSEWHERE = frozenset({"context", "trained_elsewhere"})

COUNTED = ("tool_calls", "judged_calls", "failed_calls", "invalid_calls", "looped_calls")
"""What is summed over attempts, by the names of the export's `behaviour`."""


def calls_of(rollout: Rollout) -> tuple[str, ...] | None:
    """The tools that an attempt called, in order; None where no trajectory told."""
    told = [span.tools for row in rollout.rows for span in row.spans if span.kind not in _ELSEWHERE]
    known = [tools for tools in told if tools is not None]
    return tuple(name for tools in known for name in tools)[:_LONGEST] if known else None


def sequences_of(group: Group) -> tuple[tuple[str, ...], ...]:
    """The sequences of the group's valid attempts, as far as they are known."""
    found = (calls_of(rollout) for rollout in group.rollouts if rollout.reward is not None)
    return tuple(calls for calls in found if calls is not None)


def counts_of(rollouts: Iterable[Rollout]) -> Counter[str]:
    """Sums over the valid attempts that tell how their calls ended."""
    total: Counter[str] = Counter()
    for rollout in rollouts:
        told = rollout.rows[0].behaviour
        if rollout.reward is not None and all(name in told for name in COUNTED):
            total.update({name: int(told[name]) for name in COUNTED})
    return total


def without_tool_errors(group: Group) -> tuple[Group, int]:
    """The group without the tokens of turns whose tool calls failed, all or some of them; and how many turns that were.

    The attempts stay, with their rewards: the turns that went well are trained.
    """
    masked = 0

    def mended(row: RLSample) -> RLSample:
        nonlocal masked
        bad = [span for span in row.spans if span.kind == "sampled" and span.tool_errors]
        masked += len(bad)
        return _masked(row, bad) if bad else row

    rollouts = tuple(
        replace(rollout, rows=tuple(map(mended, rollout.rows))) if rollout.excluded is None else rollout
        for rollout in group.rollouts
    )
    return replace(group, rollouts=rollouts), masked


def _masked(row: RLSample, spans: list[Span]) -> RLSample:
    mask = array("b", row.loss_mask)
    for span in spans:
        mask[span.start : span.end] = array("b", bytes(span.end - span.start))
    return replace(row, loss_mask=mask)
