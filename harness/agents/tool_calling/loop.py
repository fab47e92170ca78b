"""The tool-calling agent: what a run of it is set up with, and how one conversation goes on in the next step's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.agents.protocol import AgentResult, AgentRun
from harness.agents.tool_calling import prompt
from harness.agents.tool_calling.budget import Budget, Spending
from harness.agents.tool_calling.config import LoopConfig
from harness.agents.tool_calling.episode import Episode, Scene
from harness.agents.tool_calling.history import History
from harness.agents.tool_calling.record import record_opening
from harness.agents.tool_calling.skills import find_skills
from harness.agents.tool_calling.subagents import Subagents
from harness.agents.tool_calling.tools import ToolLimits, Workbench, schemas_of
from harness.agents.tool_calling.toolset import toolset
from harness.atif.reader import load_trajectory
from harness.llm.protocol import ChatModel, Message


@dataclass(slots=True)
class _Conversation:
    """What the next step of a task continues: the history, and the trajectory that it was recorded in."""

    history: History
    subagent_system: str
    recorded_in: Path


class ToolCallingAgent:
    """The agent: a model, a loop's settings, and no state between runs."""

    version = "1.0"

    def __init__(
        self,
        config: LoopConfig,
        model: ChatModel,
        *,
        name: str = "tool_calling",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self.model = model
        self._name = name
        self._clock = clock

    @property
    def name(self) -> str:
        """The name that it was asked for by."""
        return self._name

    @property
    def model_name(self) -> str | None:
        """The model's name at its endpoint."""
        return self.model.name

    async def run(self, run: AgentRun) -> AgentResult:
        """Work on one instruction. Raises ModelError and SandboxError; everything else is a result."""
        config, session = self._config, run.session
        budget = Budget(turns=config.max_turns, tokens=config.token_budget, cost_usd=config.cost_budget_usd)
        spending = Spending(budget, run.timeout_sec, self._clock)
        limits = ToolLimits(
            output_chars=config.output_chars,
            command_sec=config.command_timeout_sec,
            max_command_sec=config.max_command_timeout_sec,
        )
        known = session.conversation if session.interaction.conversation == "continue" else None
        conversation = known if isinstance(known, _Conversation) else await self._open(run)
        subagents = Subagents(conversation.subagent_system)
        scene = Scene(
            config=config,
            model=self.model,
            run=run,
            trajectory=run.trajectory,
            spending=spending,
            bench=Workbench(sandbox=run.sandbox, limits=limits, time_left=spending.time_left, user=run.step.agent_user),
            tools=toolset(
                memory_dir=session.interaction.memory_dir,
                user=session.user,
                step=run.step.name,
                delegate=subagents.work,
            ),
            text_is_final=config.text_is_final,
        )
        subagents.scene = scene
        _record_opening(scene, conversation, continues=conversation is known)
        session.conversation = conversation
        result = await Episode(scene, conversation.history, next_message=session.next_turn).play()
        if subagents.started:
            result.metadata["subagents"] = subagents.started
        return result

    async def close(self) -> None:
        """Release the model's connections."""
        await self.model.close()

    async def _open(self, run: AgentRun) -> _Conversation:
        """A fresh conversation: the system prompts are made from what the task asks for and the sandbox has."""
        wanted = run.session.interaction
        skills = await find_skills(run.sandbox, wanted.skills_dir) if wanted.skills_dir else []

        def system(base: str, *, user: bool) -> str:
            return prompt.system_prompt(
                base, standing=wanted.system_prompt, skills=skills, memory_dir=wanted.memory_dir, user=user
            )

        user = run.session.user is not None
        own = system(self._config.system_prompt or (prompt.SYSTEM if user else prompt.SYSTEM_ALONE), user=user)
        head = (Message(role="system", content=own), Message(role="user", content=run.step.instruction))
        return _Conversation(History(head=head), system(prompt.SUBAGENT, user=False), run.trajectory.path)


def _record_opening(scene: Scene, conversation: _Conversation, *, continues: bool) -> None:
    """What a conversation starts with; one that goes on starts with a copy of what is recorded of it."""
    trajectory, schemas = scene.trajectory, schemas_of(scene.tools)
    if not continues:
        record_opening(trajectory, schemas, conversation.history.head)
        return
    instruction = Message(role="user", content=scene.run.step.instruction)
    record_opening(trajectory, schemas, ())
    for step in load_trajectory(conversation.recorded_in).steps:
        trajectory.copy(step)
    trajectory.user(instruction.content)
    conversation.history.add(instruction)
    conversation.recorded_in = trajectory.path
