"""The record of one execution: `result.json` of a trial.

A superset of what Harbor 0.26 writes, so that its readers accept ours and we read its. Unknown is null, never 0: a
reward that was not obtained, a count nobody reported, and a limit nobody set are all null.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from harness.atif.usage import Usage
from harness.failures import FailureCategory, Layer, Outcome

SCHEMA_VERSION = 1


def _finite_or_null(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Measure = Annotated[float | None, BeforeValidator(_finite_or_null)]
"""A metric: a number that is not finite is unknown."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", use_enum_values=False, ser_json_inf_nan="null")


class Timing(_Record):
    """When a phase began and ended."""

    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def seconds(self) -> float | None:
        """Its wall time."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()


class ExceptionInfo(_Record):
    """What ended the trial before its time."""

    exception_type: str
    exception_message: str
    exception_traceback: str = ""
    occurred_at: datetime


class ModelInfo(_Record):
    """The model behind an agent, as Harbor names it."""

    name: str
    provider: str | None = None


class AgentInfo(_Record):
    """Who acted."""

    name: str
    version: str
    model_info: ModelInfo | None = None


class AgentUsage(_Record):
    """Tokens and cost as reported; `incomplete` when some call told none, `unpriced_calls` where no price is known.

    `n_sampled_calls` have their sampled tokens on record; where there are calls and none of those, it is text only.
    """

    n_input_tokens: int | None = None
    n_cache_tokens: int | None = None
    n_output_tokens: int | None = None
    cost_usd: Measure = None
    n_calls: int = 0
    n_sampled_calls: int = 0
    incomplete: bool = False
    unpriced_calls: int = 0
    metadata: dict[str, Any] | None = None

    @classmethod
    def of(cls, usage: Usage, metadata: dict[str, Any] | None = None, *, sampled_calls: int = 0) -> AgentUsage:
        """The totals of a run, as the record keeps them."""
        return cls(
            n_input_tokens=usage.prompt_tokens,
            n_cache_tokens=usage.cached_tokens,
            n_output_tokens=usage.completion_tokens,
            cost_usd=usage.cost_usd,
            n_calls=usage.calls,
            n_sampled_calls=sampled_calls,
            incomplete=usage.incomplete,
            unpriced_calls=usage.unpriced_calls,
            metadata=metadata or None,
        )


class VerifierResult(_Record):
    """The verdict as Harbor writes it: every reward by its key."""

    rewards: dict[str, float] | None = None


class Verification(_Record):
    """How the verdict came about.

    Attributes:
        source: the file that was read, "reward.json" or "reward.txt".
        headline: the key that `reward` was taken from, or "mean" when no key is called so.
        conflict: both files existed and disagreed; reward.json counts.
        exit_code: of test.sh; null when its deadline killed it.
        runs: how often the verifier was run.
        output_tail: the end of what test.sh printed.
    """

    source: str | None = None
    headline: str | None = None
    conflict: bool = False
    exit_code: int | None = None
    timed_out: bool = False
    oom: bool | None = None
    runs: int = 1
    output_tail: str = ""


class Evidence(_Record):
    """A structured fact behind a classification: which source said what."""

    source: str
    text: str


class Failure(_Record):
    """Why an attempt did not succeed."""

    category: FailureCategory
    layer: Layer
    tag: str
    retryable: bool
    trainable: bool
    message: str = ""
    evidence: list[Evidence] = Field(default_factory=list)


class SandboxRecord(_Record):
    """Where the attempt ran. `isolation` is the level that was really reached."""

    backend: str
    isolation: str
    id: str


class Behaviour(_Record):
    """What the agent did, counted from structured facts of its trajectory; `harness.behaviour` counts. Null is unknown.

    Attributes:
        steps, tool_calls: those of embedded sub-agents included, copied context not. subagents: how many there were.
        turns: steps with calls. parallel_turns: with two or more, which hold `parallel_calls`; of these calls
            `parallel_inspections` change nothing, and `early_inspections` come before any that may change something.
        judged_calls: calls of which a structured fact tells how they ended; `failed_calls` failed.
        invalid_calls: refused for their form. timeouts: killed by their deadline, or exit code 124.
        repeated_failures: calls that failed before, made again though nothing else was changed in between;
            `timeout_retries`: those that had timed out.
        loops, looped_calls, longest_loop: unproductive loops, the calls in them, and in the longest.
        test_touches: calls that name the verifier's files. history_reads: calls that look in git for commits that the
            repository is not at, or fetch some. background_calls: commands that leave something running.
        context_first, context_last, context_max: prompt tokens of the agent's model calls. compactions: how often its
            conversation was cut.
        model_sec, tool_sec: seconds in model calls and in tools, where recorded.
    """

    steps: int = 0
    tool_calls: int = 0
    subagents: int | None = None
    turns: int | None = None
    parallel_turns: int | None = None
    parallel_calls: int | None = None
    parallel_inspections: int | None = None
    early_inspections: int | None = None
    judged_calls: int | None = None
    failed_calls: int | None = None
    invalid_calls: int | None = None
    timeouts: int | None = None
    timeout_retries: int | None = None
    repeated_failures: int | None = None
    loops: int | None = None
    looped_calls: int | None = None
    longest_loop: int | None = None
    test_touches: int | None = None
    history_reads: int | None = None
    background_calls: int | None = None
    context_first: int | None = None
    context_last: int | None = None
    context_max: int | None = None
    compactions: int | None = None
    model_sec: Measure = None
    tool_sec: Measure = None


class Exchange(_Record):
    """One question of the agent's, and what the simulated user said; `matched` if that was more than the default."""

    step: str | None = None
    question: str
    answer: str
    matched: bool


class UserRecord(_Record):
    """The simulated user of a task.

    Attributes:
        questions: how often it was asked; answered: how often it knew more than its default.
        turns: its messages after the first instruction.
        exchanges: the first ones, in order.
        usage: tokens and cost of the model that spoke for it; null where its script did. The agent's own exclude them.
    """

    questions: int = 0
    answered: int = 0
    turns: int = 0
    exchanges: list[Exchange] = Field(default_factory=list)
    usage: AgentUsage | None = None


class StepRecord(_Record):
    """One step of a task that has several."""

    step_name: str
    agent_result: AgentUsage | None = None
    verifier_result: VerifierResult | None = None
    exception_info: ExceptionInfo | None = None
    agent_execution: Timing | None = None
    verifier: Timing | None = None
    verification: Verification | None = None
    stop: str | None = None
    behaviour: Behaviour = Field(default_factory=Behaviour)


class TrialResult(_Record):
    """One execution of one attempt of one task."""

    schema_version: int = SCHEMA_VERSION
    id: str
    task_name: str
    trial_name: str
    trial_uri: str
    task_id: dict[str, Any]
    source: str | None = None
    task_checksum: str
    config: dict[str, Any]
    agent_info: AgentInfo
    agent_result: AgentUsage | None = None
    verifier_result: VerifierResult | None = None
    verifier_environment_mode: str | None = None
    exception_info: ExceptionInfo | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    environment_setup: Timing | None = None
    agent_setup: Timing | None = None
    agent_execution: Timing | None = None
    verifier: Timing | None = None
    step_results: list[StepRecord] | None = None
    reward_valid: bool = False

    outcome: Outcome | None = None
    reward: Measure = None
    failure: Failure | None = None
    tags: list[str] = Field(default_factory=list)
    categories: list[str] = Field(default_factory=list)
    difficulty: str | None = None
    task_tags: list[str] = Field(default_factory=list)
    attempt: int = 1
    retry: int = 0
    seed: int | None = None
    group_id: str | None = None
    policy_version: str | None = None
    sandbox: SandboxRecord | None = None
    verification: Verification | None = None
    limits: dict[str, Any] = Field(default_factory=dict)
    cleaned: list[str] = Field(default_factory=list)
    dropped_files: list[str] = Field(default_factory=list)
    n_dropped_files: int = 0
    behaviour: Behaviour = Field(default_factory=Behaviour)
    user: UserRecord | None = None

    @property
    def final(self) -> bool:
        """Whether resuming leaves this attempt as it is: it says something about the agent or the task."""
        return self.outcome in (Outcome.SCORED, Outcome.AGENT_FAILED, Outcome.TASK_ERROR)


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)
