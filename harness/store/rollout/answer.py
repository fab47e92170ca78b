"""One answer of a model on record: a step of the trajectory, and its sampled tokens in the rollout file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from harness.atif.model import Metrics, ToolCall
from harness.atif.writer import TrajectoryWriter
from harness.llm.protocol import Reply
from harness.store.rollout.call import MAIN, SampledCall
from harness.store.rollout.writer import RolloutWriter

_SMALL = 1024
"""An answer of at most so many tokens has them in the trajectory, too. Prompts are in the rollout file only."""

_LOGPROBS_MODE = {"vllm": "raw", "sglang": "processed"}


def record_answer(
    trajectory: TrajectoryWriter,
    rollout: RolloutWriter,
    reply: Reply,
    calls: Sequence[ToolCall],
    *,
    sampling: Mapping[str, Any],
    extra: Mapping[str, Any],
) -> None:
    """Append the answer to both."""
    session = trajectory.trajectory_id or MAIN
    call_id = f"{session}/{trajectory.steps + 1}"
    has_tokens = reply.completion_token_ids is not None
    ids, logprobs = _small(reply)
    trajectory.agent(
        reply.content,
        reasoning=reply.reasoning,
        tool_calls=calls,
        metrics=Metrics(
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            cached_tokens=reply.cached_tokens,
            cost_usd=reply.cost_usd,
            completion_token_ids=ids,
            logprobs=logprobs,
            extra={
                "finish_reason": reply.finish_reason,
                "sampling": dict(sampling),
                "retries": reply.retries,
                "duration_sec": round(reply.duration_sec, 6),
                **({"policy_version": reply.policy_version} if reply.policy_version else {}),
                **({"rollout": {"file": rollout.path.name, "call_id": call_id}} if has_tokens else {}),
            },
        ),
        model_name=reply.model,
        extra=extra,
    )
    if has_tokens or rollout.calls:
        rollout.add(_sampled_call(reply, call_id, session, trajectory.steps, sampling))


def _sampled_call(reply: Reply, call_id: str, session: str, step_id: int, sampling: Mapping[str, Any]) -> SampledCall:
    mode = _LOGPROBS_MODE.get(reply.engine or "") if reply.logprobs is not None else None
    return SampledCall(
        call_id=call_id,
        session=session,
        step_id=step_id,
        prompt_ids=reply.prompt_token_ids,
        completion_ids=reply.completion_token_ids,
        logprobs=reply.logprobs,
        finish_reason=reply.finish_reason,
        sampling={**({"logprobs_mode": mode} if mode else {}), **sampling},
        policy_version=reply.policy_version,
        version_runs=reply.version_runs,
        model=reply.model,
        engine=reply.engine,
        started_at=reply.started_at,
        duration_sec=reply.duration_sec,
    )


def _small(reply: Reply) -> tuple[list[int] | None, list[float] | None]:
    """The sampled ids and log-probabilities of an answer that is small; those that are no numbers stay out of JSON."""
    ids, logprobs = reply.completion_token_ids, reply.logprobs
    if ids is None or len(ids) > _SMALL:
        return None, None
    usable = logprobs is not None and len(logprobs) == len(ids) and all(map(math.isfinite, logprobs))
    return list(ids), list(logprobs) if logprobs is not None and usable else None
