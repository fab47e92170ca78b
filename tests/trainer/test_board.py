"""`harness train --tensorboard`: what a step logs, read back from the event file as TensorBoard reads it."""

from __future__ import annotations

import json
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from rl_rows import export
from tiny_policy import VOCAB, groups

from harness.errors import UsageError
from trainer.board import Board
from trainer.cli import train
from trainer.policy.tiny import save_tiny


def curves(folder: Path) -> dict[str, dict[int, float]]:
    """Tag -> step -> value."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    read.Reload()
    return {tag: {each.step: each.value for each in read.Scalars(tag)} for tag in read.Tags()["scalars"]}


@pytest.mark.slow
def test_every_known_number_of_every_step_is_there_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    save_tiny(tmp_path / "model", width=16, heads=2, vocab_size=VOCAB, max_tokens=256)
    for path in (tmp_path / "model").glob("*token*"):
        path.unlink()
    data, out = export(tmp_path / "data", list(chain.from_iterable(groups(6)))), tmp_path / "out"
    more: dict[str, Any] = {"out": out, "settings": ["groups_per_step=2", "checkpoint_every=1"], "tensorboard": True}
    for steps, resume in ((2, False), (4, True)):
        assert train(data, str(tmp_path / "model"), steps=steps, resume=resume, **more) == 0
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    found = curves(out / "tensorboard")
    assert {"learning/loss", "exploration/entropy", "drift/ratio_max", "cost/tokens"} <= set(found)
    by_name = {tag.rpartition("/")[2]: values for tag, values in found.items()}
    for name in lines[0].keys() - {"step"}:
        logged = {line["step"]: line[name] for line in lines if line[name] is not None}
        assert by_name.get(name, {}) == pytest.approx(logged, rel=1e-6)


def test_without_the_package_it_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(UsageError, match=r"pip install 'harness-rl\[tensorboard\]'"):
        Board(tmp_path / "tensorboard")
