"""One change of the training request: what is recommended, said in words, and applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainer.config import TrainConfig, parse_config


@dataclass(frozen=True, slots=True)
class Remedy:
    """A setting by its dotted name, its new value, and what that does."""

    setting: str
    value: Any
    says: str

    @property
    def change(self) -> str:
        """As `harness train --set` takes it."""
        value = str(self.value).lower() if isinstance(self.value, bool) else f"{self.value:g}".replace("e-0", "e-")
        return f"{self.setting}={self.value if isinstance(self.value, int) and self.value is not True else value}"

    def apply(self, config: TrainConfig) -> TrainConfig:
        """The request with the change. Raises UsageError where the two do not go together."""
        return parse_config(_with(config.model_dump(), self.setting.split("."), self.value))


def mask_long_failures(config: TrainConfig, tokens: int) -> Remedy | None:
    """Failed attempts longer than this stay out of the loss, and in their groups' means."""
    present = config.filters.mask_failed_longer_than
    if present is not None and present <= tokens:
        return None
    return Remedy("filters.mask_failed_longer_than", tokens, f"mask failed attempts of more than {tokens:,} tokens")


def weigh_failures_less(config: TrainConfig) -> Remedy | None:
    """Half of what failed attempts weigh, down to an eighth."""
    weight = config.negative_weight / 2
    return None if weight < 0.125 else Remedy("negative_weight", weight, f"failed attempts weigh {weight:g}")


def mask_tool_errors(config: TrainConfig) -> Remedy | None:
    """Turns whose tool calls failed are not imitated."""
    if config.filters.mask_tool_errors:
        return None
    return Remedy("filters.mask_tool_errors", True, "leave turns whose tool calls failed out of the loss")


def tighten(config: TrainConfig) -> Remedy | None:
    """A smaller norm that gradients are clipped to, halved down to 0.1."""
    norm = (config.optimizer.max_grad_norm or 1.0) / 2
    return None if norm < 0.1 else Remedy("optimizer.max_grad_norm", norm, f"clip gradients to a norm of {norm:g}")


def slow_down(config: TrainConfig) -> Remedy:
    """Half the learning rate."""
    rate = config.optimizer.lr / 2
    return Remedy("optimizer.lr", rate, f"halve the learning rate to {rate:g}")


def _with(tables: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    name, *rest = path
    return {**tables, name: _with(tables[name], rest, value) if rest else value}
