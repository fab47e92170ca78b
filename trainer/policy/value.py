"""The critic: one linear layer over the policy's hidden states, kept beside the model's own weights.

A model's folder loads in transformers as it is, which looks for its own files only; a later run takes the critic up.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from harness.errors import UsageError
from trainer.distributed import full, is_first

FILE = "value_head.safetensors"


def make_value_head(width: int, dtype: torch.dtype) -> nn.Linear:
    """A fresh one, which expects 0 of everything."""
    head = nn.Linear(width, 1, dtype=dtype)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def load_value_head(folder: Path, width: int, dtype: torch.dtype) -> nn.Linear:
    """The one in a model's folder, or a fresh one. Raises UsageError for one that is damaged or of another model."""
    head = make_value_head(width, dtype)
    if not (folder / FILE).is_file():
        return head
    try:
        head.load_state_dict(load_file(folder / FILE))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise UsageError(
            f"{folder / FILE} is no value head for this model: remove it to begin with a fresh one"
        ) from error
    return head


def save_value_head(head: nn.Module, folder: Path) -> None:
    """Write it into a model's folder. Over several ranks, all have to call it; the first one writes."""
    state = {name: full(value).contiguous() for name, value in head.named_parameters()}
    if is_first():
        save_file(state, folder / FILE)
