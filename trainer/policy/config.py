"""How a policy is loaded and computed."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class LoraConfig(BaseModel):
    """Low-rank adapters (arXiv 2106.09685) in place of full weights. Dropout is always off. Needs peft."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32, gt=0)
    targets: str | tuple[str, ...] = "all-linear"
    """Names of modules; "all-linear" is every linear layer but the output's."""


class PolicyConfig(BaseModel):
    """Precision, adapters, memory, and where it runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    precision: Literal["float32", "bfloat16"] = "float32"
    """What layers compute in. Weights and optimiser stay fp32."""
    fp32_head: bool = True
    """The output layer in fp32 although the rest is not."""
    gradient_checkpointing: bool = False
    """Activations of layers are computed twice instead of kept."""
    lora: LoraConfig | None = None
    device: str = "auto"
    """"auto" is CUDA where there is one, else the CPU."""
    max_tokens: int | None = Field(default=None, ge=2)
    """Rows longer than this are left out; None takes the model's own limit."""
