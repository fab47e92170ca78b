"""Which calls can be trained on: their tokens are judged here, once, and what is wrong has a name that is counted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.store.rollout.call import SampledCall

NO_TOKENS = "no_token_ids"
NO_PROMPT = "no_prompt_ids"
EMPTY = "nothing_sampled"
NO_LOGPROBS = "no_logprobs"
LENGTH = "logprob_count_differs"
NOT_FINITE = "logprob_not_finite"
POSITIVE = "logprob_positive"

UNPLACED = frozenset({NO_TOKENS, NO_PROMPT, EMPTY})
"""Without these there is nothing to put into a row; a call with any other fault is in its row, masked."""

ROUNDING = 1e-5
"""How far above 0 a log-probability may lie by the rounding of its engine."""

_SENTINEL = -9999.0
"""What vLLM writes for minus infinity, which JSON lacks."""


def fault_of(call: SampledCall, *, with_logprobs: bool = True) -> str | None:
    """What keeps a call from being trained on; None if nothing does."""
    ids, logprobs = call.completion_ids, call.logprobs
    if ids is None:
        return NO_TOKENS
    if call.prompt_ids is None or not len(call.prompt_ids):
        return NO_PROMPT
    if not len(ids):
        return EMPTY
    if not with_logprobs:
        return None
    if logprobs is None:
        return NO_LOGPROBS
    if len(logprobs) != len(ids):
        return LENGTH
    return _fault_of_values(logprobs)


def _fault_of_values(logprobs: Sequence[float]) -> str | None:
    low, high = min(logprobs), max(logprobs)
    # A NaN may hide from min and max, but not from a sum.
    if not math.isfinite(math.fsum(logprobs) if math.isfinite(low) and math.isfinite(high) else math.nan):
        return NOT_FINITE
    if low <= _SENTINEL:
        return NOT_FINITE
    return POSITIVE if high > ROUNDING else None
