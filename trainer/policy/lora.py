"""Low-rank adapters through peft, which is imported here only."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harness.errors import UsageError
from trainer.policy.config import LoraConfig


def add_adapter(model: Any, config: LoraConfig, *, seed: int) -> None:
    """Put adapters into the model, in place; only they remain trainable. The same seed gives the same adapters.

    Raises UsageError without peft, and for targets that the model does not have.
    """
    try:
        import peft
    except ImportError as error:
        raise UsageError("LoRA needs the package 'peft': pip install peft") from error
    targets = config.targets if isinstance(config.targets, str) else list(config.targets)
    settings = peft.LoraConfig(
        r=config.rank, lora_alpha=config.alpha, lora_dropout=0.0, target_modules=targets, task_type="CAUSAL_LM"
    )
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft reads names that transformers is giving up
        torch.manual_seed(seed)
        try:
            peft.get_peft_model(model, settings)
        except ValueError as error:
            raise UsageError(f"policy.lora: {str(error).splitlines()[0]}") from error


def save_adapter(model: Any, folder: Path) -> None:
    """Write the adapters alone, as peft loads them."""
    import peft
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    state = peft.get_peft_model_state_dict(model)
    # peft names what it loads as seen from its own wrapper.
    named = {f"base_model.model.{name}": value.detach().cpu().contiguous() for name, value in state.items()}
    save_file(named, folder / "adapter_model.safetensors")
    model.peft_config["default"].save_pretrained(folder)


def merged_state(model: Any) -> dict[str, Tensor]:
    """The weights of the plain model with the adapters added in."""
    state: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        if ".lora_" not in name:
            state[name.replace(".base_layer.", ".")] = value
    for name, module in model.named_modules():
        if hasattr(module, "get_delta_weight"):
            weight = state[f"{name}.weight"]
            state[f"{name}.weight"] = weight + module.get_delta_weight("default").to(weight.dtype)
    return state
