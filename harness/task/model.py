"""A task as the rest of the harness sees it: resolved, frozen, and the same for every version of the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from backends.spec import NetworkMode, Resources
from harness.task.interaction import Interaction

Origin = Literal["default", "task", "cli"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A number and who set it. A default is not a declaration: only what a task declares is its own limit."""

    value: float
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something in a task's files that its author should know: unknown keys, deprecated ones, suspicious scripts."""

    path: str
    key: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthcheck:
    """A command that must succeed before the agent starts; times are in seconds, as in Docker's HEALTHCHECK."""

    command: str
    interval_sec: float = 5.0
    timeout_sec: float = 30.0
    start_period_sec: float = 0.0
    start_interval_sec: float = 5.0
    retries: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Something to keep: `source` in the sandbox, `destination` relative to the trial's artifacts folder."""

    source: str
    destination: str
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a sandbox is made of.

    Attributes:
        image, build_dir: a ready image, or a folder with a Dockerfile (exactly one is set).
        env: variables, whose values may be `${VAR}` or `${VAR:-default}` templates of the host's environment.
        origins: for every limit here, who set it, e.g. {"cpus": "task", "memory_mb": "default"}.
    """

    image: str | None = None
    build_dir: Path | None = None
    workdir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    network: NetworkMode = NetworkMode.FULL
    resources: Resources = field(default_factory=Resources)
    build_timeout: Limit = field(default_factory=lambda: Limit(value=600.0, origin="default"))
    healthcheck: Healthcheck | None = None
    origins: Mapping[str, Origin] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One instruction, acted on by the agent and then verified. A plain task has exactly one, without a name.

    Attributes:
        tests: folders to be merged, in order, into /tests before verification; the last one wins.
        solution_dir: the folder that the oracle uploads to /solution; None where the task ships no solution.
        files_dir: a folder to be copied into the workdir before the agent of this step starts.
        verifier_environment: a sandbox of its own for the verifier; None verifies in the agent's sandbox.
        min_reward: thresholds by reward key; below one of them, later steps do not run.
    """

    name: str | None
    instruction: str
    tests: tuple[Path, ...]
    solution_dir: Path | None
    files_dir: Path | None = None
    solution_env: Mapping[str, str] = field(default_factory=dict)
    agent_timeout: Limit
    agent_user: str | None = None
    verifier_timeout: Limit
    verifier_user: str | None = None
    verifier_env: Mapping[str, str] = field(default_factory=dict)
    verifier_environment: Environment | None = None
    healthcheck: Healthcheck | None = None
    artifacts: tuple[Artifact, ...] = ()
    min_reward: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task.

    Attributes:
        name: the task's own name, e.g. "acme/hello", or its folder's.
        digest: "sha256:..." over every file of the folder, names and modes included.
        source: the dataset it came from, if any.
        categories: from `[metadata] category` or `categories`; empty if it has none.
        reward_range: what a reward may be; [0, 1] unless the task declares a wider one.
        reward_strategy: how the rewards of several steps make one: "mean" or "final".
        interaction: how the agent is talked to, apart from the instructions.
    """

    name: str
    path: Path
    digest: str
    source: str | None = None
    environment: Environment
    steps: tuple[Step, ...]
    categories: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    difficulty: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    reward_range: tuple[float, float] = (0.0, 1.0)
    reward_strategy: Literal["mean", "final"] = "mean"
    interaction: Interaction = field(default_factory=Interaction)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenTask:
    """A folder that was meant to be a task and cannot be loaded; it is reported and never stops its siblings."""

    name: str
    path: Path
    source: str | None
    reason: str
    unsupported: bool = False
