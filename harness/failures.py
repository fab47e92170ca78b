"""How an attempt ended, and what follows from it: one table, and no other place that decides.

Attribution follows the layer that raised and the terminal event, never the text that an agent, a model or a command
printed. A command of the agent's that timed out or was killed along the way is behaviour, not the trial's failure.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import StrEnum

from backends import errors as sandbox
from harness import errors


class Outcome(StrEnum):
    """Every attempt ends in exactly one of these."""

    SCORED = "scored"
    """A verifier gave a valid reward."""
    AGENT_FAILED = "agent_failed"
    """The agent ended by its own fault and there is no reward; it counts as a failure."""
    INFRA_ERROR = "infra_error"
    """The sandbox, the provider, the model's endpoint or the verifier's plumbing failed: nothing about the agent."""
    TASK_ERROR = "task_error"
    """The task is broken or cannot be honoured here."""
    CANCELLED = "cancelled"
    """The operator stopped it."""


class FailureCategory(StrEnum):
    """Whose failure it was. `unknown` is not trainable."""

    CAPABILITY = "capability"
    INFRA_OOM = "infra_oom"
    INFRA_TIMEOUT = "infra_timeout"
    INFRA_SANDBOX = "infra_sandbox"
    UNKNOWN = "unknown"


class Layer(StrEnum):
    """The layer that ended the attempt."""

    AGENT = "agent"
    MODEL = "model"
    SANDBOX = "sandbox"
    VERIFIER = "verifier"
    TASK = "task"
    HARNESS = "harness"
    USER = "user"


class AgentStop(StrEnum):
    """Why an agent's run came to its end, as the agent itself tells it."""

    FINISHED = "finished"
    MAX_TURNS = "max_turns"
    TOKEN_BUDGET = "token_budget"  # noqa: S105
    COST_BUDGET = "cost_budget"
    TIMEOUT = "agent_timeout"
    CONTEXT_OVERFLOW = "context_overflow"
    EMPTY_RESPONSES = "empty_responses"
    MALFORMED_CALLS = "malformed_calls"
    STUCK = "stuck"
    REFUSAL = "refusal"
    EXITED = "agent_exited"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row of the table.

    Attributes:
        layer: who ended the attempt.
        outcome: the outcome, unless a valid reward makes it `scored`.
        category: whose failure it is.
        tag: the specific name of the event, stable, e.g. "agent_timeout".
        retry: a new attempt on a fresh sandbox is worth it. Trouble of the verifier's own is repeated alone, by
            `harness/trial/verifier.py`, and never by running the agent again.
        grade: the verifier still runs.
        reward_valid: a reward obtained all the same counts.
    """

    layer: Layer
    outcome: Outcome
    category: FailureCategory
    tag: str
    retry: bool
    grade: bool
    reward_valid: bool

    @property
    def trainable(self) -> bool:
        """Whether an attempt that ended so may be a (negative) sample: only what is provably the agent's own doing."""
        return self.category is FailureCategory.CAPABILITY


def _agent(tag: str) -> Verdict:
    return Verdict(Layer.AGENT, Outcome.AGENT_FAILED, FailureCategory.CAPABILITY, tag, False, True, True)


def _infra(layer: Layer, category: FailureCategory, tag: str, *, retry: bool = True) -> Verdict:
    return Verdict(layer, Outcome.INFRA_ERROR, category, tag, retry, False, False)


def _task(layer: Layer, tag: str) -> Verdict:
    return Verdict(layer, Outcome.TASK_ERROR, FailureCategory.UNKNOWN, tag, False, False, False)


_OOM, _TIMEOUT, _SANDBOX = FailureCategory.INFRA_OOM, FailureCategory.INFRA_TIMEOUT, FailureCategory.INFRA_SANDBOX

BY_STOP: dict[AgentStop, Verdict] = {stop: _agent(stop.value) for stop in AgentStop if stop is not AgentStop.FINISHED}
"""The agent's own ends. It is graded, and the reward counts; without a reward the attempt is the agent's failure."""

BY_ERROR: dict[type[BaseException], Verdict] = {
    sandbox.SandboxOutOfMemory: _infra(Layer.SANDBOX, _OOM, "sandbox_oom"),
    sandbox.SandboxTimeout: _infra(Layer.SANDBOX, _TIMEOUT, "sandbox_timeout"),
    sandbox.SandboxUnavailable: _infra(Layer.SANDBOX, _SANDBOX, "sandbox_unavailable"),
    sandbox.SandboxUnusable: _infra(Layer.SANDBOX, _SANDBOX, "sandbox_unusable"),
    sandbox.SandboxStartError: _infra(Layer.SANDBOX, _SANDBOX, "sandbox_start"),
    sandbox.SandboxQuotaError: _infra(Layer.SANDBOX, _SANDBOX, "sandbox_quota"),
    sandbox.SandboxAuthError: _infra(Layer.SANDBOX, _SANDBOX, "sandbox_auth", retry=False),
    sandbox.SandboxDiskFull: _infra(Layer.SANDBOX, _SANDBOX, "disk_full", retry=False),
    sandbox.SandboxImageNotFound: _task(Layer.TASK, "image_not_found"),
    sandbox.SandboxBuildError: _task(Layer.TASK, "build_failed"),
    sandbox.SandboxUnsupported: _task(Layer.TASK, "unsupported"),
    sandbox.SandboxError: _infra(Layer.SANDBOX, _SANDBOX, "sandbox_error"),
    errors.HealthcheckFailed: _infra(Layer.SANDBOX, _SANDBOX, "environment_start"),
    errors.TaskInvalid: _task(Layer.TASK, "task_invalid"),
    errors.TaskUnsupported: _task(Layer.TASK, "unsupported"),
    errors.TaskChanged: _task(Layer.TASK, "task_changed"),
    errors.TaskError: _task(Layer.TASK, "task_error"),
    errors.AgentSetupError: _infra(Layer.AGENT, _SANDBOX, "agent_setup"),
    errors.AgentExited: _agent("agent_exited"),
    errors.AgentError: Verdict(
        Layer.AGENT, Outcome.AGENT_FAILED, FailureCategory.UNKNOWN, "agent_error", False, False, False
    ),
    errors.ModelRateLimited: _infra(Layer.MODEL, _SANDBOX, "model_rate_limited"),
    errors.ModelQuotaExhausted: _infra(Layer.MODEL, _SANDBOX, "model_quota", retry=False),
    errors.ModelUnavailable: _infra(Layer.MODEL, _SANDBOX, "model_unavailable"),
    errors.ModelTimeout: _infra(Layer.MODEL, _TIMEOUT, "model_timeout"),
    errors.ModelAuthError: _infra(Layer.MODEL, _SANDBOX, "model_auth", retry=False),
    errors.ModelRejected: _infra(Layer.MODEL, _SANDBOX, "model_rejected", retry=False),
    errors.ModelError: _infra(Layer.MODEL, _SANDBOX, "model_error"),
    errors.VerifierTimeout: _infra(Layer.VERIFIER, _TIMEOUT, "verifier_timeout", retry=False),
    errors.VerifierUnavailable: _infra(Layer.VERIFIER, _SANDBOX, "verifier_unavailable", retry=False),
    errors.VerifierKilled: Verdict(
        Layer.VERIFIER, Outcome.AGENT_FAILED, FailureCategory.UNKNOWN, "verifier_killed", False, False, False
    ),
    errors.VerifierUnrunnable: _task(Layer.VERIFIER, "test_script_unrunnable"),
    errors.RewardMissing: _task(Layer.VERIFIER, "reward_missing"),
    errors.RewardInvalid: _task(Layer.VERIFIER, "reward_invalid"),
    errors.VerifierError: _task(Layer.VERIFIER, "verifier_error"),
}
"""The most specific class wins."""

BY_REPETITION: dict[type[BaseException], Verdict] = {sandbox.SandboxUnusable: _agent("sandbox_unusable")}
"""In place of the row above where the execution before ended so, too, and this one did in the agent's hands.

Once it may have been chance. An agent that removes the shell or fills the process table of one sandbox after the other
has failed its task, and must not be spared a zero by that.
"""

AGENT_CRASH = BY_ERROR[errors.AgentError]
"""An exception of no known class that crossed the agent's boundary: a bug of the agent's code, or of ours."""

HARNESS_BUG = _infra(Layer.HARNESS, FailureCategory.UNKNOWN, "harness_error", retry=False)
"""An exception of no known class anywhere else."""

WATCHDOG = _infra(Layer.HARNESS, _TIMEOUT, "trial_watchdog")
"""Nothing below answered, cancellation included."""

HOST_DISK_FULL = _infra(Layer.HARNESS, _SANDBOX, "disk_full", retry=False)
"""The host has no space left for the record."""

CANCELLED = Verdict(Layer.USER, Outcome.CANCELLED, FailureCategory.UNKNOWN, "cancelled", False, False, False)

WRONG_ANSWER = _agent("wrong_answer")
"""The agent finished, the verifier graded it, and the reward is below the pass mark."""


def verdict_of(error: BaseException, *, in_agent: bool = False, before: str | None = None) -> Verdict:
    """The row of the most specific class of `error`; an unknown class is a bug of the layer that was running.

    `before` is how the execution that this one repeats ended, by its tag, if it is the agent that had this sandbox.
    """
    for cls in type(error).__mro__:
        if cls in BY_REPETITION and BY_REPETITION[cls].tag == before:
            return BY_REPETITION[cls]
        if cls in BY_ERROR:
            return BY_ERROR[cls]
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        return HOST_DISK_FULL
    return AGENT_CRASH if in_agent else HARNESS_BUG


NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What the host says when its disk is full."""
