"""`RLSample`: one row of an export, which is one branch of one attempt. The contract with whoever trains.

All token columns have the same length. `loss_mask` is 1 exactly on tokens that the policy sampled and that no other row
trains; `logprobs` is NaN wherever it is 0. A row that may not be trained on is still a row, so that groups keep their
size: `trainable` is false, `untrainable_reason` says why, and `loss_mask` is 0 throughout.

Advantages are not here: they follow from `reward`, `group_id` and the trainer's own rule.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

SCHEMA_VERSION = 1


def _ids() -> array[int]:
    return array("i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch [start, end) of one row's tokens.

    Attributes:
        kind: "context" (read, not sampled), "sampled" (trained here), "trained_elsewhere" (sampled, and trained in
            another row), "realigned" (a sampled response that the next prompt spells differently: masked), "invalid"
            (sampled, but its log-probabilities are unusable: masked), "masked" (of a row that is not trainable).
        chunk: the environment interaction that it belongs to, from 0; -1 for context.
        call_id, session, step_id, finish_reason, temperature: of the call that sampled it; None for context.
        tools: what the turn called, in order, a shell command with its program ("bash:git"); empty for a turn without
            calls, None where no trajectory tells.
        tool_errors: how many of these calls failed; None where nothing structured tells.
    """

    start: int
    end: int
    kind: str
    chunk: int = -1
    call_id: str | None = None
    session: str | None = None
    step_id: int | None = None
    finish_reason: str | None = None
    temperature: float | None = None
    tools: tuple[str, ...] | None = None
    tool_errors: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RLSample:
    """One branch.

    Attributes:
        schema_version: of this contract.
        sample_id: unique; the rollout and the branch.
        group_id: attempts to be compared with each other: the task, its content, never the agent or the trial.
        group_size: attempts that the group is meant to have. group_missing: how many of them left no row.
        rollout_id: the attempt. Rows of one attempt share it, and its reward.
        branch, n_branches: the position of this row among the attempt's rows, and their number.
        rollout_weight: 1 / n_branches: what a row counts where the loss averages over rollouts.
        session: the conversation: "main", or a sub-agent's id.

        token_ids: what the policy read and sampled, in order.
        loss_mask: 1 on tokens to train, else 0.
        logprobs: of the policy that sampled, NaN where `loss_mask` is 0.
        policy_index: per token, the position in `policy_versions` of the weights that sampled it; -1 where none did or
            nobody knows.
        policy_versions: the versions that took part, in order of appearance.
        chunk_ids: per token, the environment interaction (one model call and what came of it) that it was sampled for,
            from 0 within the row; -1 for what was not sampled.
        spans: the same as runs, with the calls that they belong to.
        ids_from: "sampled", or "retokenised" by `--retokenize`: then no log-probability is known and the ids need
            not be what was sampled.

        temperature, top_p, top_k, logprobs_mode: of all calls of the row; None where they differ or are unknown.
        finish_reason: of the row's last call.
        reward: None where none is valid. reward_parts: the verifier's own keys.
        outcome, failure_category, failure_tag, failure_layer: how the attempt ended.
        trainable, untrainable_reason: whether `loss_mask` may hold a 1, and why not.
        behaviour: numbers about what the agent did.

        job, trial, task, task_digest, attempt, retry, seed: where it comes from.
        agent, agent_version, model, engine, harness_version: what made it.
        started_at: ISO 8601, UTC.
    """

    schema_version: int = SCHEMA_VERSION
    sample_id: str
    group_id: str
    group_size: int
    group_missing: int
    rollout_id: str
    branch: int = 0
    n_branches: int = 1
    rollout_weight: float = 1.0
    session: str = "main"

    token_ids: Sequence[int] = field(default_factory=_ids)
    loss_mask: Sequence[int] = field(default_factory=lambda: array("b"))
    logprobs: Sequence[float] = field(default_factory=lambda: array("f"))
    policy_index: Sequence[int] = field(default_factory=lambda: array("h"))
    policy_versions: tuple[str, ...] = ()
    chunk_ids: Sequence[int] = field(default_factory=_ids)
    spans: tuple[Span, ...] = ()
    ids_from: str = "sampled"

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    logprobs_mode: str | None = None
    finish_reason: str | None = None
    reward: float | None
    reward_parts: dict[str, float] = field(default_factory=dict)
    outcome: str
    failure_category: str | None = None
    failure_tag: str | None = None
    failure_layer: str | None = None
    trainable: bool
    untrainable_reason: str | None = None
    behaviour: dict[str, float] = field(default_factory=dict)

    job: str
    trial: str
    task: str
    task_digest: str
    attempt: int
    retry: int = 0
    seed: int | None = None
    agent: str
    agent_version: str
    model: str | None = None
    engine: str | None = None
    harness_version: str
    started_at: str | None = None


COLUMNS = tuple(each.name for each in fields(RLSample))


def arrow_schema() -> pyarrow.Schema:
    """The schema of the Parquet files. Needs pyarrow."""
    import pyarrow as pa

    text, real = pa.string(), pa.float64()
    span = pa.struct(
        [
            ("start", pa.int32()),
            ("end", pa.int32()),
            ("kind", text),
            ("chunk", pa.int32()),
            ("call_id", text),
            ("session", text),
            ("step_id", pa.int32()),
            ("finish_reason", text),
            ("temperature", pa.float32()),
            ("tools", pa.list_(text)),
            ("tool_errors", pa.int32()),
        ]
    )
    types: dict[str, Any] = {
        **{name: pa.int32() for name in ("schema_version", "group_size", "group_missing", "branch", "n_branches")},
        **{name: pa.int32() for name in ("top_k", "attempt", "retry")},
        "seed": pa.int64(),
        **{name: pa.float32() for name in ("rollout_weight", "temperature", "top_p")},
        "token_ids": pa.list_(pa.int32()),
        "loss_mask": pa.list_(pa.int8()),
        "logprobs": pa.list_(pa.float32()),
        "policy_index": pa.list_(pa.int16()),
        "policy_versions": pa.list_(text),
        "chunk_ids": pa.list_(pa.int32()),
        "spans": pa.list_(span),
        "reward": real,
        # A list of pairs, since readers differ on maps.
        "reward_parts": pa.list_(pa.struct([("key", text), ("value", real)])),
        "behaviour": pa.list_(pa.struct([("key", text), ("value", real)])),
        "trainable": pa.bool_(),
    }
    schema = pa.schema([(name, types.get(name, text)) for name in COLUMNS])
    return schema.with_metadata({"harness-rl-sample": str(SCHEMA_VERSION)})
