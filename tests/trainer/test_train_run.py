"""A run on an export: what it writes, what it refuses in one line, and that going on is as if it never stopped."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from rl_rows import export, group, row
from safetensors.torch import load_file, save_file
from tiny_policy import VOCAB, groups, request

from harness.errors import UsageError
from trainer.checkpoint import checkpoints
from trainer.loop import Outcome, train
from trainer.policy.tiny import make_tokenizer, save_tiny


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    save_tiny(folder, width=16, heads=2, vocab_size=VOCAB, max_tokens=256)
    for path in folder.glob("*token*"):
        path.unlink()
    return str(folder)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return export(tmp_path / "data", list(chain.from_iterable(groups(10))))


def go(data: Path, model: str, out: Path, *, resume: bool = False, **settings: Any) -> Outcome:
    tables = {"groups_per_step": 2, "seed": 3, **settings}
    return train(data, model, out, request(**tables), resume=resume)


def log(out: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        for clock in ("seconds", "tokens_per_second"):
            line.pop(clock)
    return lines


def weights(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "model" / "model.safetensors")


def same_weights(one: Path, other: Path) -> bool:
    left, right = weights(one), weights(other)
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_a_run_leaves_a_log_a_checkpoint_and_a_model_that_transformers_loads(
    tmp_path: Path, data: Path, model: str
) -> None:
    from transformers import AutoModelForCausalLM

    outcome = go(data, model, tmp_path / "out")
    assert outcome == Outcome(steps=5, model=tmp_path / "out" / "model")
    assert [line["step"] for line in log(tmp_path / "out")] == [1, 2, 3, 4, 5]
    loaded = AutoModelForCausalLM.from_pretrained(outcome.model)
    before = load_file(Path(model) / "model.safetensors")
    assert not torch.equal(before["model.embed_tokens.weight"], loaded.model.embed_tokens.weight)
    assert {path.suffix for path in (tmp_path / "out").rglob("*") if path.is_file()} <= {
        ".json",
        ".jsonl",
        ".safetensors",
    }


def test_the_fresh_model_brings_its_tokenizer_along(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    data = export(tmp_path / "data", group([1, 0]))
    outcome = go(data, "tiny", tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(outcome.model)
    ids = tokenizer("ls ü<|end|>").input_ids
    assert ids == [*"ls ü".encode(), 257] and tokenizer.decode(ids) == "ls ü<|end|>"


@pytest.mark.case("G11")
@pytest.mark.parametrize("settings", [{}, {"updates_per_step": 2, "proximal": "recompute", "kl": {"weight": 0.01}}])
def test_a_resumed_run_is_bitwise_the_run_that_never_stopped(
    tmp_path: Path, data: Path, model: str, settings: dict[str, Any]
) -> None:
    go(data, model, tmp_path / "straight", steps=8, **settings)
    go(data, model, tmp_path / "halves", steps=4, **settings)
    go(data, model, tmp_path / "halves", steps=8, resume=True, **settings)
    assert log(tmp_path / "halves") == log(tmp_path / "straight")
    assert same_weights(tmp_path / "halves", tmp_path / "straight")


@pytest.mark.case("G11")
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_killed_run_goes_on_as_if_it_had_not_been(tmp_path: Path, data: Path, model: str) -> None:
    settings = {"steps": 40, "checkpoint_every": 3}
    go(data, model, tmp_path / "straight", **settings)
    code = (
        "import sys, json; from pathlib import Path; from tiny_policy import request; from trainer.loop import train\n"
        "data, model, out, settings = sys.argv[1:]\n"
        "train(Path(data), model, Path(out), request(groups_per_step=2, seed=3, **json.loads(settings)))"
    )
    killed = tmp_path / "killed"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(data), model, str(killed), json.dumps(settings)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and len(checkpoints(killed / "checkpoints")) < 2:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if not (killed / "model").exists():
        assert len(log(killed)) < 40
    with (killed / "metrics.jsonl").open("a") as file:
        file.write('{"step": 41, "lo')  # a line that the crash tore
    go(data, model, killed, resume=True, **settings)
    assert log(killed) == log(tmp_path / "straight")
    assert same_weights(killed, tmp_path / "straight")


def test_a_half_written_checkpoint_is_none(tmp_path: Path, data: Path, model: str) -> None:
    out = tmp_path / "out"
    go(data, model, out, steps=2)
    (out / "checkpoints" / ".step-000003.draft").mkdir()
    (found,) = checkpoints(out / "checkpoints")
    assert found.name == "step-000002"
    (found / "weights.safetensors").write_bytes(b"torn")
    with pytest.raises(UsageError, match=r"weights\.safetensors|step-000002 cannot be read"):
        go(data, model, out, steps=3, resume=True)


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path, data: Path, model: str) -> None:
    go(data, model, tmp_path / "out", steps=5, checkpoint_every=1)
    assert [path.name for path in checkpoints(tmp_path / "out" / "checkpoints")] == ["step-000004", "step-000005"]


def test_the_seed_alone_decides_the_order(tmp_path: Path, data: Path, model: str) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        go(data, model, tmp_path / name, seed=seed)
    assert log(tmp_path / "a") == log(tmp_path / "b") != log(tmp_path / "c")


def test_more_steps_than_a_pass_begin_another_in_another_order(tmp_path: Path, data: Path, model: str) -> None:
    go(data, model, tmp_path / "out", steps=10)
    lines = log(tmp_path / "out")
    assert [line["epoch"] for line in lines] == [0] * 5 + [1] * 5
    assert [line["trained_tokens"] for line in lines[:5]] != [line["trained_tokens"] for line in lines[5:]]


@pytest.mark.case("G12")
def test_groups_without_signal_make_no_step(tmp_path: Path, model: str) -> None:
    rows = [each for number in range(6) for each in group([1, 1], task=f"same{number}")]
    outcome = go(export(tmp_path / "data", [*rows, *group([1, 0])]), model, tmp_path / "out")
    assert outcome.steps == 1
    (line,) = log(tmp_path / "out")
    assert line["filtered_zero_variance"] + line["groups"] >= 1


@pytest.mark.case("G11")
def test_a_step_without_a_finite_gradient_changes_nothing_and_is_never_checkpointed(
    tmp_path: Path, data: Path, model: str
) -> None:
    out = tmp_path / "out"
    optimizer = {"lr": 1e30, "warmup_steps": 0}  # the first step is its last sound one
    outcome = go(data, model, out, max_skipped=3, checkpoint_every=1, optimizer=optimizer)
    assert outcome.steps == 4 and outcome.model is None
    assert outcome.halted is not None and "3 steps in a row had no finite gradient" in outcome.halted
    assert [line["skipped"] for line in log(out)] == [0, 1, 1, 1]
    assert [line["updates"] for line in log(out)] == [1, 0, 0, 0]
    assert [path.name for path in checkpoints(out / "checkpoints")] == ["step-000001"]


def test_a_model_with_damaged_weights_is_refused(tmp_path: Path, data: Path, model: str) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(model, folder)
    state = load_file(folder / "model.safetensors")
    state["model.norm.weight"][0] = math.inf
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UsageError, match="the weights are damaged"):
        go(data, str(folder), tmp_path / "out")


def test_broken_infrastructure_halts_the_run_with_its_reason(tmp_path: Path, model: str) -> None:
    good = [each for number in range(8) for each in group([1, 0], task=f"a{number}")]
    bad = [each for number in range(20) for each in group([None, 1], task=f"b{number}")]
    data = export(tmp_path / "data", [*good, *bad])
    with_reason = go(data, model, tmp_path / "out", breaker={"window": 20, "minimum": 20}, groups_per_step=1)
    assert with_reason.halted is not None and "broken by infrastructure" in with_reason.halted
    assert with_reason.model is None
    assert checkpoints(tmp_path / "out" / "checkpoints")


def retokenised(number: int = 2) -> list[Any]:
    return [
        replace(each, ids_from="retokenised", logprobs=[math.nan] * len(each.token_ids))
        for task in range(number)
        for each in group([1, 0], task=f"t{task}")
    ]


REFUSALS: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "no groups": ([], {}, "has no groups"),
    "all masked": (group([None, None, None]), {"breaker": {"minimum": 9}}, "nothing to train on in 1 groups"),
    "groups of one": ([row(1, task="a"), row(0, task="b")], {}, "all 2 groups have one attempt"),
    "no signal": (group([1, 1]), {}, "zero_variance 1"),
    "no log-probabilities": (retokenised(), {}, "cispo divides by the sampler's log-probabilities"),
    "another tokenizer": (group([1, 0], prompt=[VOCAB]), {}, "made with another tokenizer: it holds token 40"),
    "no such part": (
        group([1, 0], reward_parts={"tests": 1.0}),
        {"rewards": {"parts": {"test": 1.0}}},
        "no attempt has the part test; there is tests",
    ),
    "no such device": (group([1, 0]), {"policy": {"device": "cuda9"}}, "policy.device 'cuda9'"),
    "too long": (group([1, 0], prompt=[1] * 300), {}, "too_long 2"),
    "broken": (
        [each for number in range(3) for each in group([None, 1], task=f"t{number}")],
        {"breaker": {"minimum": 2}},
        "broken by infrastructure",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_trained_is_one_line_before_any_step(tmp_path: Path, model: str, name: str) -> None:
    rows, settings, words = REFUSALS[name]
    data = export(tmp_path / "data", rows)
    with pytest.raises(UsageError) as caught:
        go(data, model, tmp_path / "out", **settings)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_imitation_needs_no_log_probabilities(tmp_path: Path, model: str) -> None:
    assert go(export(tmp_path / "data", retokenised()), model, tmp_path / "out", algo="sft").steps == 1


def test_a_tokenizer_that_is_known_to_be_another_is_refused(tmp_path: Path) -> None:
    from harness.export.retokenize import fingerprint_of

    mine, other = fingerprint_of(make_tokenizer()), "sha256:0"
    assert go(export(tmp_path / "a", group([1, 0]), tokenizer=mine), "tiny", tmp_path / "out").steps == 1
    with pytest.raises(UsageError, match="another tokenizer than that of tiny"):
        go(export(tmp_path / "b", group([1, 0]), tokenizer=other), "tiny", tmp_path / "out2")


def test_an_export_of_another_version_is_refused(tmp_path: Path, model: str) -> None:
    rows = [replace(each, schema_version=7) for each in group([1, 0])]
    with pytest.raises(UsageError, match="schema_version 7; this program reads 1"):
        go(export(tmp_path / "data", rows), model, tmp_path / "out")


def test_what_is_no_model_is_one_line(tmp_path: Path, data: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in (str(tmp_path / "nowhere"), str(tmp_path / "empty")):
        with pytest.raises(UsageError, match="--model") as caught:
            go(data, name, tmp_path / "out")
        assert "\n" not in str(caught.value)


def test_a_run_in_use_is_taken_up_only_as_it_was_begun(tmp_path: Path, data: Path, model: str) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError, match="holds no run to resume"):
        go(data, model, out, resume=True)
    go(data, model, out, steps=1)
    with pytest.raises(UsageError, match="--resume goes on with it"):
        go(data, model, out)
    with pytest.raises(UsageError, match="other settings of algo"):
        go(data, model, out, resume=True, algo="grpo")
    with pytest.raises(UsageError, match=r"other settings of filters\.max_staleness, optimizer\.lr$"):
        go(data, model, out, resume=True, optimizer={"lr": 1e-3, "warmup_steps": 0}, filters={"max_staleness": 4})
    with pytest.raises(UsageError, match="was begun with export"):
        go(export(tmp_path / "other", group([1, 0])), model, out, resume=True)


def test_something_else_is_never_overwritten(tmp_path: Path, data: Path, model: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds something that is no run"):
        go(data, model, tmp_path / "out")


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft reads names that transformers is giving up
def test_adapters_are_trained_alone_and_merged_into_the_result(tmp_path: Path, data: Path, model: str) -> None:
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    settings = {"policy": {"lora": {"rank": 4}}, "optimizer": {"lr": 0.1, "warmup_steps": 0}}
    outcome = go(data, model, tmp_path / "out", steps=4, **settings)
    go(data, model, tmp_path / "halves", steps=2, **settings)
    go(data, model, tmp_path / "halves", steps=4, resume=True, **settings)
    assert same_weights(tmp_path / "out", tmp_path / "halves")
    (newest,) = checkpoints(tmp_path / "out" / "checkpoints")
    assert all("lora_" in name for name in load_file(newest / "weights.safetensors"))
    assert outcome.model is not None
    base, merged = (AutoModelForCausalLM.from_pretrained(each) for each in (model, outcome.model))
    assert base.state_dict().keys() == merged.state_dict().keys()
    ids = torch.arange(12)[None]
    with_adapter = peft.PeftModel.from_pretrained(base, outcome.model / "adapter")
    expected = with_adapter(input_ids=ids).logits
    assert torch.allclose(merged(input_ids=ids).logits, expected, atol=1e-5)
    with with_adapter.disable_adapter():
        assert not torch.allclose(with_adapter(input_ids=ids).logits, expected, atol=1e-3)
