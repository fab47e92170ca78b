"""What an agent is: something that acts in a sandbox on one instruction and tells why it stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from backends.protocol import SandboxBackendProtocol
from harness.agents.session import Session
from harness.atif.writer import TrajectoryWriter
from harness.failures import AgentStop
from harness.store.rollout import RolloutWriter
from harness.task.model import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """Everything that one run of an agent is given.

    Attributes:
        task_name: the task's own name; scripts and recorded trajectories are found by it.
        step: the instruction, and for the oracle the solution.
        sandbox: where to act. The verifier's files are not in it yet.
        trajectory: where every step is written the moment it happens. It outlives a cancelled run.
        rollout: where every model call goes whose sampled tokens are known.
        logs_dir: a host folder for the agent's own logs.
        timeout_sec: seconds until the trial cancels the run.
        seed: differs between the attempts of a task, and is the same when an attempt is repeated.
        session: what the task asks for apart from the instruction, and what lasts from one step of it to the next.
    """

    task_name: str
    step: Step
    sandbox: SandboxBackendProtocol
    trajectory: TrajectoryWriter
    rollout: RolloutWriter
    logs_dir: Path
    timeout_sec: float
    seed: int
    session: Session = field(default_factory=Session)

    @property
    def prompt(self) -> str:
        """The instruction after the task's standing instructions: for an agent whose system prompt cannot hold them."""
        standing = self.session.interaction.system_prompt
        return f"{standing.strip()}\n\n{self.step.instruction}" if standing else self.step.instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """Why the run stopped, in a word and in a line, and anything the agent wants to keep with the record."""

    stop: AgentStop = AgentStop.FINISHED
    detail: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class Agent(Protocol):
    """One agent, shared by all trials of a job: `run` keeps no state between calls."""

    @property
    def name(self) -> str:
        """The agent's name in records."""

    @property
    def version(self) -> str:
        """Its version."""

    @property
    def model_name(self) -> str | None:
        """The model behind it; None if it has none."""

    async def run(self, run: AgentRun) -> AgentResult:
        """Act until done. A limit of the agent's own is a result (`AgentStop`).

        Raises ModelError when the model's endpoint fails, AgentExited when the agent's own program does, and lets
        SandboxError pass. Anything else that it raises counts as its crash.
        """

    async def close(self) -> None:
        """Release connections."""
