"""One model call as it was sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

MAIN = "main"
"""The session of the agent itself; sub-agents have sessions of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledCall:
    """What one call of a model was given and what was sampled. None is what the endpoint did not tell.

    Attributes:
        call_id: unique within the run.
        session: the conversation that the call belongs to: "main", or a sub-agent's id.
        step_id: the step of that session's ATIF trajectory that holds the answer; None where there is no such step.
        prompt_ids, completion_ids: tokens that the model read, and those that it sampled, the end token included.
        logprobs: of the sampled tokens, by the policy that sampled them; as the endpoint gave them, checked by nobody.
        finish_reason: the endpoint's own word, e.g. "stop", "tool_calls", "length".
        sampling: temperature, top_p, top_k and so on; `logprobs_mode` says what the log-probabilities are of:
            "raw" (before temperature) or "processed" (after it), absent where nobody knows.
        policy_version: of the weights that sampled; of the oldest ones, where they changed along the way.
        version_runs: (version, number of sampled tokens) in order, where the weights changed along the way.
        model: its name as the endpoint tells it. engine: what served it, e.g. "vllm", "sglang", "llama.cpp".
        started_at: when the answered request was sent. duration_sec: until it was answered.
    """

    call_id: str
    session: str = MAIN
    step_id: int | None = None
    prompt_ids: Sequence[int] | None = None
    completion_ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    finish_reason: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    policy_version: str | None = None
    version_runs: tuple[tuple[str, int], ...] | None = None
    model: str | None = None
    engine: str | None = None
    started_at: datetime | None = None
    duration_sec: float | None = None
