"""How the loop behaves, and which model it asks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.errors import UsageError
from harness.llm.openai_chat import Endpoint
from harness.llm.price import Price
from harness.llm.retry import RetryPolicy


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


class ToolCallingConfig(LoopConfig):
    """The loop with a model behind an OpenAI-compatible endpoint."""

    model: str
    """The model's name at the endpoint."""
    base_url: str | None = None
    """None is OpenAI's own endpoint."""
    api_key_env: str | None = None
    """The variable that holds the key. None: OPENAI_API_KEY for OpenAI's endpoint, no key for any other."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Sampling parameters, sent as they are: temperature, top_p, max_tokens, ..."""
    request_timeout_sec: float = Field(default=600.0, gt=0)
    max_retries: int = Field(default=6, ge=0)
    """Further requests after a rate limit, an overload, a broken connection or a timeout."""
    stream: bool = False
    capture: bool = False
    """Ask for token ids and log-probabilities (vLLM, SGLang and alike)."""
    logprobs_mode: Literal["raw", "processed"] | None = None
    """What the server's log-probabilities are of: "raw" (before temperature) or "processed" (after it). None: vLLM's
    and SGLang's own defaults, raw and processed."""
    send_seed: bool = False
    input_cost_per_mtok: float | None = Field(default=None, ge=0)
    """US dollars per million tokens; with `output_cost_per_mtok` it makes the price known."""
    output_cost_per_mtok: float | None = Field(default=None, ge=0)
    cached_cost_per_mtok: float | None = Field(default=None, ge=0)
    """None: cached input costs what input costs."""

    def endpoint(self) -> Endpoint:
        """The endpoint, with the key from the environment.

        Raises UsageError when the key is not there, or when a cost budget has no price to count with.
        """
        price = None
        if self.input_cost_per_mtok is not None and self.output_cost_per_mtok is not None:
            price = Price(
                input=self.input_cost_per_mtok, output=self.output_cost_per_mtok, cached=self.cached_cost_per_mtok
            )
        if self.cost_budget_usd is not None and price is None:
            raise UsageError(
                "cost_budget_usd needs the model's price: set input_cost_per_mtok and output_cost_per_mtok, "
                "or bound the run by max_turns or token_budget"
            )
        return Endpoint(
            model=self.model,
            base_url=self.base_url,
            api_key=self._api_key(),
            parameters=self.parameters,
            request_timeout_sec=self.request_timeout_sec,
            stream=self.stream,
            capture=self.capture,
            logprobs_mode=self.logprobs_mode,
            send_seed=self.send_seed,
            price=price,
            retry=RetryPolicy(max_retries=self.max_retries),
        )

    def _api_key(self) -> str:
        variable = self.api_key_env or (None if self.base_url else "OPENAI_API_KEY")
        if variable is None:
            return ""
        key = os.environ.get(variable, "").strip()
        if not key:
            raise UsageError(
                f"model {self.model!r} needs its key in the environment variable {variable}, which is not set"
            )
        return key
