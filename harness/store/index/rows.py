"""What the index knows of a trial and of a call: each field is a column of its table. Null is unknown.

Times are ISO 8601 in UTC, all of one width, so that they compare as text in every database.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from harness import strict_json

MAX_COMMAND = 2000
"""Characters of a command that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """One execution of one attempt.

    Attributes:
        root: the folder of jobs; "." is the one that the index itself lies in. job, trial: the folders' names.
        digest: of the task's content. attempt counts from 1; retry from 0, the first execution.
        exception: the type of what ended it before its time.
        numbered: whether the record numbers its attempt; where it does not, attempts are numbered by folder, per task.
        seconds: wall time of the whole; the other seconds are those of its phases.
        categories, tags: of the task.
    """

    root: str
    job: str
    trial: str
    task: str
    digest: str
    difficulty: str | None
    outcome: str
    reward: float | None
    failure_category: str | None
    failure_tag: str | None
    failure_layer: str | None
    exception: str | None
    agent: str
    agent_version: str
    model: str | None
    policy_version: str | None
    group_id: str
    attempt: int
    retry: int
    numbered: bool
    seed: int | None
    started_at: str | None
    finished_at: str | None
    seconds: float | None
    environment_seconds: float | None
    agent_seconds: float | None
    verifier_seconds: float | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    model_calls: int | None
    sampled_calls: int | None
    backend: str | None
    isolation: str | None
    categories: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One tool call.

    Attributes:
        part: the task's step, in a task that has several. subagent: whose call it is; null is the agent itself.
        step: of that trajectory. position: among the calls of the step, from 0.
        command: of a shell, its first `MAX_COMMAND` characters; null for other tools.
    """

    part: str | None
    subagent: str | None
    step: int
    position: int
    tool: str
    command: str | None
    exit_code: int | None
    timed_out: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Everything that goes into the index for one trial.

    Attributes:
        behaviour: the numbers of `harness.records.Behaviour`; None where nothing tells them.
        rewards: every part of the reward by its name.
        problem: what could not be read although the record could, in a line.
    """

    row: TrialRow
    behaviour: dict[str, Any] | None
    rewards: dict[str, float]
    calls: list[CallRow]
    problem: str | None = None


def timestamp(moment: datetime) -> str:
    """A moment as the index spells it. A moment without a zone is taken for UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def stored_text(value: str) -> str:
    """Text as every database stores it: what UTF-8 lacks, and the NUL that PostgreSQL lacks, are U+FFFD."""
    return strict_json.whole(value).replace("\0", "\ufffd")
