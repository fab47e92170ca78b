"""What one execution is (`TrialSpec`), and what it shares with the others of its job (`TrialContext`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backends.protocol import SandboxProvider
from harness.agents.protocol import Agent
from harness.agents.user import Speaker
from harness.store.layout import JobPaths, TrialPaths, slug, trial_name
from harness.task.model import BrokenTask, Limit, Task
from harness.trial.events import Emit
from harness.trial.limits import TrialLimits
from harness.trial.scratch import Scratch


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpec:
    """One execution of one attempt of one task. Attempts count from 1; retry 0 is the first execution.

    `before` is the tag of the failure that this execution repeats; None for a first one, and where it is not known.
    `group` sets attempts of a task apart that are not to be compared with its others: those of another policy.
    """

    task: Task | BrokenTask
    attempt: int
    retry: int = 0
    before: str | None = None
    group: str | None = None

    @property
    def name(self) -> str:
        """The execution's folder."""
        return trial_name(self.task.name, self.attempt, self.retry)

    @property
    def digest(self) -> str:
        """The task's content; empty for one that could not be loaded."""
        return self.task.digest if isinstance(self.task, Task) else ""

    @property
    def group_id(self) -> str:
        """Names the group that this attempt is compared in: the task and its version, never the agent or the trial."""
        common = f"{slug(self.task.name)}@{self.digest.removeprefix('sha256:')[:12]}"
        return f"{common}/{self.group}" if self.group else common

    def seed(self, job_seed: int) -> int:
        """The same for every execution of an attempt, different between attempts."""
        text = f"{job_seed}/{self.task.name}/{self.attempt}"
        return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:4], "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialContext:
    """What all trials of a job share.

    Attributes:
        agent_config: how the agent was configured, without secrets; kept in every record.
        host_env: what `${VAR}` templates of tasks are resolved against.
        agent_timeout: replaces every task's own agent time-out.
        timeout_multiplier: stretches the tasks' own time-outs.
        pass_mark: the reward from which an attempt counts as a success.
        speaker: makes what speaks for the simulated user of an execution; None leaves that to the tasks' scripts.
        policy_version: the version of the trained policy behind the agent, where there is one.
        scratch: folders of the job's for what is downloaded and not yet in its place.
        root_uri: the job's folder as a URI.
    """

    provider: SandboxProvider
    agent: Agent
    paths: JobPaths
    job_id: str
    emit: Emit
    agent_config: Mapping[str, Any] = field(default_factory=dict)
    host_env: Mapping[str, str] = field(default_factory=dict)
    limits: TrialLimits = field(default_factory=TrialLimits)
    agent_timeout: float | None = None
    timeout_multiplier: float = 1.0
    pass_mark: float = 1.0
    seed: int = 0
    allow_unsafe: bool = False
    policy_version: str | None = None
    speaker: Callable[[TrialSpec], Speaker] | None = None
    scratch: Scratch = field(init=False)
    root_uri: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scratch", Scratch(self.paths.root / ".scratch"))
        object.__setattr__(self, "root_uri", self.paths.root.resolve().as_uri())

    def trial(self, spec: TrialSpec) -> TrialPaths:
        """The folder of an execution."""
        return self.paths.trial(spec.name)

    def effective(self, limit: Limit, override: float | None = None) -> Limit:
        """A task's limit after the operator's wishes, with its origin."""
        if override is not None:
            return Limit(value=override, origin="cli")
        if self.timeout_multiplier != 1.0:
            return Limit(value=limit.value * self.timeout_multiplier, origin="cli")
        return limit
