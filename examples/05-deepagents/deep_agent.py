"""An agent built on deepagents, for `harness run --agent deep_agent:DeepAgent`.

`scripted` below is a model that plays fixed replies, so that the example runs without a key. Give `model` the name of
a real one ("provider:name", as langchain has it) for the real thing: `-o model=anthropic:NAME`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from sandbox_backend import SandboxBackend

from harness.agents.protocol import AgentResult, AgentRun
from harness.atif.model import Metrics, ToolCall


class Scripted(GenericFakeChatModel):
    """Plays its messages in order, whatever tools it is offered."""

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Scripted:
        return self


def scripted() -> Scripted:
    """Writes the greeting that the bundled task `hello/greeting` asks for, and looks at it."""
    greeting = {"file_path": "/app/greeting.txt", "content": "Hello from the sandbox!\n"}
    return Scripted(
        messages=iter(
            [
                AIMessage("I write it.", tool_calls=[{"id": "1", "name": "write_file", "args": greeting}]),
                AIMessage(
                    "I check it.", tool_calls=[{"id": "2", "name": "execute", "args": {"command": "cat greeting.txt"}}]
                ),
                AIMessage("Done."),
            ]
        )
    )


class DeepAgent:
    """A deep agent that acts in the trial's sandbox."""

    name = "deepagents"
    version = "1"

    def __init__(self, model: str | None = None) -> None:
        self.model_name = model

    async def run(self, run: AgentRun) -> AgentResult:
        """Let the graph work, and write down what it said and did as it happens."""
        agent = create_deep_agent(model=self.model_name or scripted(), backend=SandboxBackend(run.sandbox))
        run.trajectory.user(run.step.instruction)
        request = {"messages": [{"role": "user", "content": run.step.instruction}]}
        seen = 1
        async for state in agent.astream(request, stream_mode="values"):
            for message in state["messages"][seen:]:
                _record(run, message)
            seen = len(state["messages"])
        return AgentResult()

    async def close(self) -> None:
        """Nothing is held."""


def _record(run: AgentRun, message: BaseMessage) -> None:
    if isinstance(message, AIMessage):
        usage = message.usage_metadata
        calls = [
            ToolCall(tool_call_id=call["id"] or "", function_name=call["name"], arguments=call["args"])
            for call in message.tool_calls
        ]
        metrics = usage and Metrics(prompt_tokens=usage["input_tokens"], completion_tokens=usage["output_tokens"])
        run.trajectory.agent(str(message.text), tool_calls=calls, metrics=metrics or None)
    elif isinstance(message, ToolMessage):
        run.trajectory.result(message.tool_call_id, str(message.text), extra={"status": message.status})
