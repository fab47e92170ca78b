"""What the attempts of a step did, in numbers: how diverse, and how often their tool calls went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainer.monitor.diversity import Calls, diversity_numbers
from trainer.monitor.estimators import Numbers


def conduct_numbers(sequences: Sequence[Sequence[Calls]], counts: Mapping[str, int]) -> Numbers:
    """From the known sequences of each group, and sums over attempts; None where there is nothing to tell."""
    return {
        **diversity_numbers(sequences),
        "failed_call_share": _share(counts, "failed_calls", "judged_calls"),
        "invalid_call_share": _share(counts, "invalid_calls", "tool_calls"),
        "looped_call_share": _share(counts, "looped_calls", "tool_calls"),
    }


def _share(counts: Mapping[str, int], part: str, whole: str) -> float | None:
    return counts[part] / counts[whole] if counts.get(whole) else None
