"""Other weights for a model that is already there."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from harness.errors import UsageError
from trainer.policy.huggingface import HuggingFacePolicy


def with_weights(policy: HuggingFacePolicy, folder: Path) -> HuggingFacePolicy:
    """The same model with the weights of a folder that transformers loads; the given one stays as it is.

    Much quicker than loading it anew: nothing but tensors is read. Raises UsageError for a folder without weights, and
    for weights of another model.
    """
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise UsageError(f"{folder} holds no weights: there is no model.safetensors")
    found: dict[str, Tensor] = {}
    for file in files:
        try:
            found |= load_file(file)
        except (OSError, SafetensorError) as error:
            raise UsageError(f"{file} cannot be read: {str(error).partition(chr(10))[0]}") from error
    model = copy.deepcopy(policy.model)
    spared = _tied(model, set(found))
    try:
        outcome = model.load_state_dict(found, strict=False)
    except RuntimeError as error:
        raise UsageError(f"{folder} holds weights of another model: their shapes differ") from error
    missing = sorted(set(outcome.missing_keys) - spared)
    if missing or outcome.unexpected_keys:
        wrong = f"without {missing[0]}" if missing else f"with {outcome.unexpected_keys[0]}"
        raise UsageError(f"{folder} holds weights of another model: {wrong}")
    return policy.with_model(model.eval())


def _tied(model: torch.nn.Module, found: set[str]) -> set[str]:
    """Names that share their tensor with another one that was found: a file holds only one of them."""
    names: dict[int, set[str]] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        names.setdefault(value.data_ptr(), set()).add(name)
    return {name for group in names.values() if group & found for name in group}
