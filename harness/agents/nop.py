"""The agent that does nothing: what a task gives away for free."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from harness.agents.protocol import AgentResult, AgentRun


class NopConfig(BaseModel):
    """Nothing to set."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NopAgent:
    """Records the instruction, and that nothing was done."""

    name = "nop"
    version = "1.0"
    model_name = None

    async def run(self, run: AgentRun) -> AgentResult:
        """Do nothing."""
        run.trajectory.user(run.step.instruction)
        run.trajectory.agent("", llm_calls=0)
        return AgentResult()

    async def close(self) -> None:
        """Nothing to release."""


def create_nop(config: NopConfig, name: str) -> NopAgent:
    """The agent."""
    return NopAgent()
