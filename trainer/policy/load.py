"""A policy by what `--model` says."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from trainer.policy.config import PolicyConfig
from trainer.policy.huggingface import HuggingFacePolicy, load_huggingface
from trainer.policy.tiny import save_tiny

TINY = "tiny"


def load_policy(name: str, config: PolicyConfig, *, seed: int = 0, critic: bool = False) -> HuggingFacePolicy:
    """`tiny` is a fresh small model; anything else a folder or name that transformers knows. Raises UsageError.

    `critic` puts a value head on it: the model's own where its folder has one, else a fresh one.
    """
    if name != TINY:
        return load_huggingface(name, config, seed=seed, critic=critic)
    with TemporaryDirectory() as folder:
        save_tiny(Path(folder), seed=seed)
        return load_huggingface(folder, config, seed=seed, critic=critic)
