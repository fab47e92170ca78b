"""A policy by what `--model` says."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from trainer.policy.config import PolicyConfig
from trainer.policy.huggingface import HuggingFacePolicy, load_huggingface
from trainer.policy.tiny import save_tiny

TINY = "tiny"


def load_policy(name: str, config: PolicyConfig, *, seed: int = 0) -> HuggingFacePolicy:
    """`tiny` is a fresh small model; anything else a folder or name that transformers knows. Raises UsageError."""
    if name != TINY:
        return load_huggingface(name, config, seed=seed)
    with TemporaryDirectory() as folder:
        save_tiny(Path(folder), seed=seed)
        return load_huggingface(folder, config, seed=seed)
