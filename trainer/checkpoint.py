"""A run's state on disk: weights, optimiser, random numbers, and the place in the data. No pickle, ever.

    checkpoints/step-000020/
      weights.safetensors     what is trained, by name
      optimizer.safetensors   AdamW's moments, by the same names, and the generator's state
      state.json              the step, the place in the data, what the planner remembers

A checkpoint is there whole or not at all: it is written under another name, flushed, and renamed. On a CPU in fp32 a
resumed run is bitwise the run that was not interrupted.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from harness.errors import UsageError
from harness.store.files import flush, read_json, to_json, write_atomic
from trainer.distributed import fill, full, is_first, wait_for_all
from trainer.step import Learner

FORMAT = "harness-train-checkpoint"
VERSION = 2
_NAME = re.compile(r"step-(\d{6,})")
_GENERATOR = "generator"


@dataclass(slots=True, kw_only=True)
class Progress:
    """Where a run is.

    Attributes:
        step: optimiser steps done, skipped ones included.
        epoch, cursor: passes over the export, and groups taken in the present one.
        skipped: steps without a finite gradient in a row.
        planner: what the planner remembers.
    """

    step: int = 0
    epoch: int = 0
    cursor: int = 0
    skipped: int = 0
    planner: dict[str, Any] = field(default_factory=dict)


def save_checkpoint(folder: Path, learner: Learner, progress: Progress, *, keep: int) -> Path:
    """Write a checkpoint into the run's folder of checkpoints, and remove all but the newest `keep`."""
    weights, moments = _weights(learner), _moments(learner)
    target = folder / f"step-{progress.step:06}"
    if is_first():
        draft = folder / f".{target.name}.draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        save_file(weights, draft / "weights.safetensors")
        save_file({**moments, _GENERATOR: torch.get_rng_state()}, draft / "optimizer.safetensors")
        document = {"format": FORMAT, "version": VERSION, "updates": learner.updates, **asdict(progress)}
        write_atomic(draft / "state.json", to_json(document))
        for file in draft.iterdir():
            flush(file)
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
        for old in checkpoints(folder)[:-keep]:
            shutil.rmtree(old, ignore_errors=True)
    wait_for_all()
    return target


def load_checkpoint(path: Path, learner: Learner) -> Progress:
    """Put a checkpoint's state into a learner. Raises UsageError for one that is damaged or of another model."""
    try:
        document = read_json(path / "state.json")
        weights, moments = load_file(path / "weights.safetensors"), load_file(path / "optimizer.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        raise UsageError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    if document.get("format") != FORMAT or document.get("version") != VERSION:
        raise UsageError(f"{path} is no checkpoint of this version")
    named = _trainable(learner)
    if weights.keys() != named.keys() or any(weights[name].shape != each.shape for name, each in named.items()):
        raise UsageError(f"{path} is a checkpoint of another model")
    for name, parameter in named.items():
        fill(parameter, weights[name])
    generator = moments.pop(_GENERATOR)
    _restore_moments(learner, named, moments)
    torch.set_rng_state(generator)
    learner.updates = document["updates"]
    return Progress(**{name: document[name] for name in Progress.__dataclass_fields__})


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first. What a killed process left half-written is none."""
    found = [path for path in folder.glob("step-*") if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def _trainable(learner: Learner) -> dict[str, Tensor]:
    return {name: each for name, each in learner.policy.module.named_parameters() if each.requires_grad}


def _weights(learner: Learner) -> dict[str, Tensor]:
    return {name: full(each).contiguous() for name, each in _trainable(learner).items()}


def _moments(learner: Learner) -> dict[str, Tensor]:
    return {
        f"{name}:{key}": full(value).contiguous()
        for name, each in _trainable(learner).items()
        for key, value in learner.optimizer.state.get(each, {}).items()
    }


def _restore_moments(learner: Learner, named: dict[str, Tensor], moments: dict[str, Tensor]) -> None:
    for key, value in moments.items():
        name, _, part = key.rpartition(":")
        parameter = named[name]
        held = torch.zeros_like(parameter) if value.dim() else torch.zeros(())
        fill(held, value)
        learner.optimizer.state[parameter][part] = held
