"""Making the agent from its settings."""

from __future__ import annotations

from importlib.util import find_spec

from harness.agents.tool_calling.config import ScriptedConfig, ToolCallingConfig
from harness.agents.tool_calling.loop import ToolCallingAgent
from harness.errors import UsageError
from harness.llm.openai_chat import OpenAIChat
from harness.llm.scripted import ScriptedModel, load_script


def create_tool_calling(config: ToolCallingConfig, name: str) -> ToolCallingAgent:
    """The agent with a model behind an endpoint.

    Raises UsageError when the SDK or the key is missing, or when a cost budget has no price to count with.
    """
    if find_spec("openai") is None:
        raise UsageError(f"agent {name!r} needs the package 'openai': pip install 'harness-rl[llm]'")
    return ToolCallingAgent(config, OpenAIChat(config.endpoint()), name=name)


def create_scripted(config: ScriptedConfig, name: str) -> ToolCallingAgent:
    """The agent with the scripted model. Raises UsageError when the script is missing or malformed."""
    return ToolCallingAgent(config, ScriptedModel(load_script(config.script), name=config.model), name=name)
