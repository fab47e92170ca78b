"""The agent that knows the answer: it runs the task's own solution."""

from __future__ import annotations

import os

from pydantic import BaseModel, ConfigDict

from harness.agents.protocol import AgentResult, AgentRun
from harness.agents.tool_calling.output import shorten
from harness.atif.model import ToolCall
from harness.errors import TaskUnsupported
from harness.failures import AgentStop
from harness.task.env import resolve_env

SOLUTION = "/solution"
MAX_OUTPUT = 100_000
"""Characters of the solution's output that the record keeps."""

# Run as an executable for the sake of its first line; a user who cannot set the mode runs it with the shell.
_COMMAND = (
    f"s={SOLUTION}/solve.sh; chmod +x $s 2>/dev/null; "
    "if [ -x $s ]; then exec $s; elif command -v bash >/dev/null; then exec bash $s; else exec sh $s; fi"
)


class OracleConfig(BaseModel):
    """Nothing to set."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class OracleAgent:
    """Uploads the solution and runs solve.sh; how that ends is recorded, and the verifier judges all the same."""

    name = "oracle"
    version = "1.0"
    model_name = None

    async def run(self, run: AgentRun) -> AgentResult:
        """Run the solution.

        Raises TaskUnsupported when the task ships none, and TaskInvalid when a variable it needs is not set.
        """
        step = run.step
        if step.solution_dir is None or not (step.solution_dir / "solve.sh").is_file():
            raise TaskUnsupported(f"task {run.task_name!r} ships no solution/solve.sh for the oracle to run")
        env = resolve_env(step.solution_env, os.environ).values
        run.trajectory.user(step.instruction)
        run.trajectory.agent(
            "",
            tool_calls=[ToolCall(tool_call_id="solve", function_name="bash", arguments={"command": _COMMAND})],
            llm_calls=0,
        )
        await run.sandbox.upload(step.solution_dir, SOLUTION)
        done = await run.sandbox.execute(_COMMAND, timeout=run.timeout_sec, env=env, user=step.agent_user)
        output = shorten(done.output, MAX_OUTPUT)
        run.trajectory.result(
            "solve",
            output,
            extra={
                "exit_code": done.agent_exit_code,
                "timed_out": done.timed_out,
                "truncated": done.truncated or output != done.output,
                "duration_sec": round(done.duration_sec, 6),
            },
        )
        metadata = {"exit_code": done.agent_exit_code}
        if done.timed_out:
            why = f"solve.sh was killed after {run.timeout_sec:g} s"
            return AgentResult(stop=AgentStop.TIMEOUT, detail=why, metadata=metadata)
        detail = f"solve.sh ended with exit code {done.exit_code}" if done.exit_code else None
        return AgentResult(detail=detail, metadata=metadata)

    async def close(self) -> None:
        """Nothing to release."""


def create_oracle(config: OracleConfig, name: str) -> OracleAgent:
    """The agent."""
    return OracleAgent()
