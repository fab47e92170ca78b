"""Adding up what was counted: the steps of a task one after the other, or an agent and its sub-agents."""

from __future__ import annotations

from harness.records import Behaviour

_CONTEXT = ("context_first", "context_last", "context_max", "compactions")
_TIME = ("model_sec", "tool_sec")


def in_sequence(first: Behaviour, then: Behaviour) -> Behaviour:
    """Both, as one: what is unknown of either is left out."""
    return _sum(first, then).model_copy(
        update={
            "context_first": then.context_first if first.context_first is None else first.context_first,
            "context_last": first.context_last if then.context_last is None else then.context_last,
            "context_max": _most(first.context_max, then.context_max),
        }
    )


def with_subagent(agent: Behaviour, subagent: Behaviour) -> Behaviour:
    """An agent's behaviour with a sub-agent's counted in. Context and time stay the agent's."""
    kept = {name: getattr(agent, name) for name in (*_CONTEXT, *_TIME)}
    both = _sum(agent, subagent)
    return both.model_copy(update={**kept, "subagents": (both.subagents or 0) + 1})


def _sum(one: Behaviour, other: Behaviour) -> Behaviour:
    values = {name: _plus(getattr(one, name), getattr(other, name)) for name in Behaviour.model_fields}
    return one.model_copy(update={**values, "longest_loop": _most(one.longest_loop, other.longest_loop)})


def _plus(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


def _most(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)
