"""One attempt becomes rows: its branches with what the record says about how it ended.

Trainable is an attempt with a valid reward. One that ended by the agent's own fault before there was anything to grade
counts as reward 0. Everything else (infrastructure, the task, the operator, a failure of unknown cause) says nothing
about the policy: its rows are there, so that groups keep their size, without a reward and masked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from harness.export.attempts import AttemptRef
from harness.export.columns import Columns, columns_of
from harness.export.schema import RLSample
from harness.export.tokens import REALIGNED, Branch, Conversation
from harness.export.turns import Turns
from harness.failures import FailureCategory, Outcome
from harness.records import TrialResult
from harness.store.rollout.call import SampledCall

SAMPLED_IDS, RETOKENISED = "sampled", "retokenised"

TEXT_ONLY = "text_only"
NO_CALLS = "no_model_calls"
RECORD_GONE = "record_damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What a row says of its group."""

    id: str
    size: int
    missing: int


@dataclass(slots=True)
class AttemptRows:
    """The rows of one attempt. `masked_because` is None where at least one of them can be trained on."""

    rows: list[RLSample] = field(default_factory=list)
    masked_because: str | None = None
    tokens: Counter[str] = field(default_factory=Counter)


def reward_of(result: TrialResult) -> tuple[float | None, str | None]:
    """The reward that counts, or None and why there is none."""
    if result.outcome is Outcome.SCORED and result.reward is not None:
        return result.reward, None
    blameless = result.failure is not None and result.failure.category is not FailureCategory.CAPABILITY
    if result.outcome is Outcome.AGENT_FAILED and not blameless:
        return 0.0, None
    outcome = result.outcome.value if result.outcome else "no_outcome"
    tag = result.failure.tag if result.failure else result.exception_info and result.exception_info.exception_type
    return None, f"{outcome}:{tag}" if tag else outcome


def rows_of(
    ref: AttemptRef,
    result: TrialResult,
    group: Group,
    conversation: Conversation,
    *,
    ids_from: str = SAMPLED_IDS,
    turns: Turns | None = None,
) -> AttemptRows:
    """The rows of an attempt: one for each branch, or a single one without tokens."""
    reward, reason = reward_of(result)
    common = _common(ref, result, group, reward, ids_from)
    found = AttemptRows()
    columns = [
        columns_of(
            branch,
            trainable=reason is None,
            policy_version=result.policy_version,
            with_logprobs=ids_from == SAMPLED_IDS,
            turns=turns,
        )
        for branch in conversation.branches
    ]
    if not columns:
        found.masked_because = reason or _without_tokens(conversation, result)
        found.rows.append(RLSample(**common, sample_id=f"{common['rollout_id']}#0", **_untrained(found.masked_because)))
        return found
    for number, (branch, each) in enumerate(zip(conversation.branches, columns, strict=True)):
        why = reason or (None if each.trained else _nothing_left(branch))
        found.rows.append(
            RLSample(
                **{**common, **_sampling(branch.calls)},
                **_tokens(each),
                **(_untrained(why) if why else {"trainable": True}),
                sample_id=f"{common['rollout_id']}#{number}",
                branch=number,
                n_branches=len(columns),
                rollout_weight=1 / len(columns),
                session=branch.session,
            )
        )
        for span in each.spans:
            found.tokens[span.kind] += span.end - span.start
    if not any(row.trainable for row in found.rows):
        found.masked_because = found.rows[0].untrainable_reason
    return found


def lost_row(ref: AttemptRef, group: Group) -> AttemptRows:
    """The row of an attempt whose record could be read a moment ago and now cannot."""
    job, task, attempt = ref.key
    row = RLSample(
        sample_id=f"{ref.job.name}/{ref.folder}#0",
        group_id=group.id,
        group_size=group.size,
        group_missing=group.missing,
        rollout_id=f"{ref.job.name}/{ref.folder}",
        reward=None,
        outcome="no_outcome",
        job=job,
        trial=ref.folder,
        task=task,
        task_digest="",
        attempt=attempt,
        agent="",
        agent_version="",
        harness_version=ref.job.harness_version,
        **_untrained(RECORD_GONE),
    )
    return AttemptRows([row], RECORD_GONE)


def _untrained(why: str) -> dict[str, Any]:
    return {"trainable": False, "untrainable_reason": why}


def _without_tokens(conversation: Conversation, result: TrialResult) -> str:
    if conversation.faults:
        return conversation.faults.most_common(1)[0][0]
    usage = [result.agent_result, *(step.agent_result for step in result.step_results or ())]
    called = any(each is not None and (each.n_calls or each.n_output_tokens) for each in usage)
    return TEXT_ONLY if called else NO_CALLS


def _nothing_left(branch: Branch) -> str:
    """Why nothing in a branch can be trained on, although its attempt could be."""
    faults = Counter(each.fault for each in branch.segments if each.fault is not None)
    return faults.most_common(1)[0][0] if faults else REALIGNED


def _tokens(columns: Columns) -> dict[str, Any]:
    return {
        "token_ids": columns.token_ids,
        "loss_mask": columns.loss_mask,
        "logprobs": columns.logprobs,
        "policy_index": columns.policy_index,
        "policy_versions": columns.policy_versions,
        "chunk_ids": columns.chunk_ids,
        "spans": columns.spans,
    }


def _sampling(calls: list[SampledCall]) -> dict[str, Any]:
    """The sampling parameters on which all calls agree, and what the last one says."""
    top_k = _agreed(calls, "top_k")
    mode = _agreed(calls, "logprobs_mode")
    return {
        "temperature": _number(_agreed(calls, "temperature")),
        "top_p": _number(_agreed(calls, "top_p")),
        "top_k": top_k if isinstance(top_k, int) and not isinstance(top_k, bool) else None,
        "logprobs_mode": mode if isinstance(mode, str) else None,
        "finish_reason": calls[-1].finish_reason,
        "engine": calls[-1].engine,
        **({"model": calls[-1].model} if calls[-1].model else {}),
    }


def _agreed(calls: list[SampledCall], name: str) -> object:
    values = [call.sampling.get(name) for call in calls]
    return values[0] if all(value == values[0] for value in values) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _common(ref: AttemptRef, result: TrialResult, group: Group, reward: float | None, ids_from: str) -> dict[str, Any]:
    failure, info = result.failure, result.agent_info
    parts = result.verifier_result.rewards if result.verifier_result and reward is not None else None
    return {
        "group_id": group.id,
        "group_size": group.size,
        "group_missing": group.missing,
        "rollout_id": f"{ref.job.name}/{ref.folder}",
        "ids_from": ids_from,
        "reward": reward,
        "reward_parts": dict(parts or {}),
        "outcome": result.outcome.value if result.outcome else "no_outcome",
        "failure_category": failure.category.value if failure else None,
        "failure_tag": failure.tag if failure else None,
        "failure_layer": failure.layer.value if failure else None,
        "behaviour": dict(_numbers(result.behaviour.model_dump())),
        "job": ref.job.name,
        "trial": ref.folder,
        "task": result.task_name,
        "task_digest": result.task_checksum,
        "attempt": result.attempt,
        "retry": result.retry,
        "seed": result.seed,
        "agent": info.name,
        "agent_version": info.version,
        "model": info.model_info.name if info.model_info else None,
        "harness_version": ref.job.harness_version,
        "started_at": result.started_at.isoformat() if result.started_at else None,
    }


def _numbers(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers in nested values, by dotted name."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and isfinite(value):
            yield f"{prefix}{name}", float(value)
