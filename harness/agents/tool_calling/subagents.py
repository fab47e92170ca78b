"""The `task` tool: sub-agents, each with a conversation of its own in the same sandbox.

A sub-agent has its own turns, and whatever it spends is the run's, too. It cannot start others, nor ask the user. How
it ends is a result for the agent that asked for it; what fails of the endpoint's or the sandbox's is raised, as ever.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from harness.agents.tool_calling import arguments as args
from harness.agents.tool_calling.episode import Episode, Scene
from harness.agents.tool_calling.history import History
from harness.agents.tool_calling.record import record_opening
from harness.agents.tool_calling.tools import ToolResult, Workbench, schemas_of
from harness.agents.tool_calling.toolset import toolset
from harness.failures import AgentStop
from harness.llm.protocol import Message


class Subagents:
    """The sub-agents of one run, some of them at a time."""

    def __init__(self, system: str) -> None:
        """`system` is their system prompt. They can start once `scene`, the agent's own, is set."""
        self.started = 0
        self.scene: Scene | None = None
        self._system = system
        self._room: asyncio.Semaphore | None = None

    async def work(self, call: args.Task, bench: Workbench) -> ToolResult:
        """Run one sub-agent to its end."""
        assert self.scene is not None
        self._room = self._room or asyncio.Semaphore(self.scene.config.subagents_at_once)
        async with self._room:
            return await self._work(call, bench, self.scene)

    async def _work(self, call: args.Task, bench: Workbench, parent: Scene) -> ToolResult:
        self.started += 1
        head = (Message(role="system", content=self._system), Message(role="user", content=call.prompt))
        trajectory = parent.trajectory.subagent(bench.call_id, description=call.description)
        scene = replace(
            parent,
            trajectory=trajectory,
            spending=parent.spending.child(parent.config.subagent_max_turns),
            bench=replace(bench, call_id=""),
            tools=toolset(memory_dir=parent.run.session.interaction.memory_dir),
            text_is_final=True,
            subagent=call.description,
        )
        episode = Episode(scene, History(head=head))
        try:
            record_opening(trajectory, schemas_of(scene.tools), head)
            result = await episode.play()
        finally:
            trajectory.close()
        said = episode.answer or "(it said nothing)"
        if result.stop is AgentStop.FINISHED:
            return ToolResult(content=said)
        why = f"the sub-agent ended by {result.stop.value}: {result.detail or 'no detail'}"
        return ToolResult(content=f"error: {why}\nIts last words: {said}", error=f"subagent_{result.stop.value}")
