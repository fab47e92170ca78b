"""What the attempts of a step did, in numbers: how diverse, how often their tool calls went wrong, what they solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainer.monitor.diversity import Calls, diversity_numbers, potential
from trainer.monitor.estimators import Numbers


def conduct_numbers(sequences: Sequence[Sequence[Calls]], counts: Mapping[str, int]) -> Numbers:
    """From the known sequences of each group, and sums over attempts; None where there is nothing to tell."""
    return {
        **diversity_numbers(sequences),
        "failed_call_share": _share(counts, "failed_calls", "judged_calls"),
        "invalid_call_share": _share(counts, "invalid_calls", "tool_calls"),
        "looped_call_share": _share(counts, "looped_calls", "tool_calls"),
    }


def pass_numbers(solved: Sequence[Sequence[bool]]) -> Numbers:
    """Pass@1, pass@k and Potential@k over groups with at least two valid attempts; k is a group's number of them."""
    groups = [own for own in solved if len(own) > 1]
    if not groups:
        return dict.fromkeys(("pass_1", "pass_any", "potential"))
    pass_1 = [sum(own) / len(own) for own in groups]
    pass_any = [float(any(own)) for own in groups]
    return {
        "pass_1": sum(pass_1) / len(groups),
        "pass_any": sum(pass_any) / len(groups),
        "potential": potential(pass_1, pass_any),
    }


def _share(counts: Mapping[str, int], part: str, whole: str) -> float | None:
    return counts[part] / counts[whole] if counts.get(whole) else None
