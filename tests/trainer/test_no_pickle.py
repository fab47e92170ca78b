"""Nothing that a stranger's checkpoint, model or export holds is ever executed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from tiny_policy import VOCAB, policy, request

from harness.errors import UsageError
from trainer.checkpoint import Progress, load_checkpoint, save_checkpoint
from trainer.policy.config import PolicyConfig
from trainer.policy.huggingface import load_huggingface
from trainer.policy.tiny import save_tiny
from trainer.step import Learner

pytestmark = [pytest.mark.slow, pytest.mark.case("H8")]


class Payload:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def poison(target: Path, pwned: Path) -> None:
    target.write_bytes(pickle.dumps(Payload(pwned)))


@pytest.fixture
def pwned(tmp_path: Path) -> Path:
    path = tmp_path / "pwned"
    poison(tmp_path / "sanity", path)
    pickle.loads((tmp_path / "sanity").read_bytes())
    assert path.exists(), "the payload works where somebody unpickles it"
    path.unlink()
    return path


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors", "adapter_model.bin"])
def test_a_model_in_pickle_is_refused(name: str, tmp_path: Path, pwned: Path) -> None:
    save_tiny(tmp_path / "model", width=16, heads=2, vocab_size=VOCAB, max_tokens=256)
    (tmp_path / "model" / "model.safetensors").unlink()
    poison(tmp_path / "model" / name, pwned)
    with pytest.raises(UsageError, match="--model"):
        load_huggingface(str(tmp_path / "model"), PolicyConfig())
    assert not pwned.exists()


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "state.json"])
def test_a_checkpoint_with_a_pickle_in_it_is_refused(name: str, tmp_path: Path, pwned: Path) -> None:
    learner = Learner(policy(), request())
    saved = save_checkpoint(tmp_path, learner, Progress(step=1), keep=1)
    load_checkpoint(saved, learner)
    poison(saved / name, pwned)
    with pytest.raises(UsageError, match="cannot be read"):
        load_checkpoint(saved, learner)
    assert not pwned.exists()
