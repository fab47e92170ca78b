"""How the loop behaves, and which model it asks."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from harness.agents.endpoint import EndpointConfig


class LoopConfig(BaseModel):
    """The loop's own settings; times in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    system_prompt: str | None = None
    """Replaces the built-in one."""
    max_turns: int = Field(default=100, ge=1)
    """Answers of the model."""
    token_budget: int | None = Field(default=None, ge=1)
    """Input and output tokens over all calls."""
    cost_budget_usd: float | None = Field(default=None, gt=0)
    """Needs the model's prices."""
    subagent_max_turns: int = Field(default=30, ge=1)
    """Answers of one sub-agent; they count among the run's own `max_turns`, too."""
    subagents_at_once: int = Field(default=8, ge=1)
    """Sub-agents of one turn that work at the same time; more wait for their turn."""
    text_is_final: bool = False
    """A text without a call ends the run. Otherwise the model is reminded once, and the second such text ends it."""
    max_empty_answers: int = Field(default=3, ge=1)
    """So many empty answers in a row end the run."""
    max_malformed_turns: int = Field(default=4, ge=1)
    """So many turns in a row without one call that could run, or cut at the token limit, end the run."""
    stuck_after: int | None = Field(default=None, ge=2)
    """So many turns in a row with the same calls and the same results end the run; None: waiting is legitimate."""
    compact: bool = False
    """On overflow, remove old turns and ask again, once; otherwise an overflow ends the run."""
    compact_keep_messages: int = Field(default=20, ge=1)
    compact_result_chars: int = Field(default=4000, ge=100)
    output_chars: int = Field(default=16_000, ge=200)
    """Characters of one result that the model is shown."""
    command_timeout_sec: float = Field(default=120.0, gt=0)
    """For a command that asks for no timeout."""
    max_command_timeout_sec: float = Field(default=600.0, gt=0)


class ScriptedConfig(LoopConfig):
    """The loop with the scripted model."""

    script: Path
    """The file of replies, see `harness.llm.scripted`."""
    model: str = "scripted"


class ToolCallingConfig(LoopConfig, EndpointConfig):
    """The loop with a model behind an OpenAI-compatible endpoint."""
