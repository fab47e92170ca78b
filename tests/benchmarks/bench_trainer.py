"""What a step costs: against the bare network, against TRL on the same model and rows, in memory, over a long export.

One thread. Printed: tokens a second of forward and backward (real tokens, padding not counted), peak memory.
Limits: 90 % of a bare forward and backward over the loss tokens; 2.5 times TRL's GRPOTrainer as rows come and 1.3 times
with its rows sorted by length at a vocabulary of 512, 8 and 4 times at 32,000; memory of a row of 32,768 tokens below
that of its logits alone; no growth of memory with the length of an export.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rl_rows import row

from harness.export.arrow import batch_of as arrow_batch
from harness.export.folder import write_manifest
from trainer.config import TrainConfig, parse_config
from trainer.policy.config import PolicyConfig
from trainer.policy.huggingface import HuggingFacePolicy
from trainer.policy.packing import packed_positions
from trainer.policy.tiny import make_tiny, make_tokenizer
from trainer.samples.batch import StepBatch, TrainingRow
from trainer.samples.collate import collate, packs
from trainer.samples.plan import Planner
from trainer.samples.source import SampleSource
from trainer.step import Learner

ROWS, PROMPT = 32, 32
TARGETS = {512: (2.5, 1.3, 1.0), 32_000: (8.0, 4.0, 0.5)}
"""Vocabulary -> times TRL as rows come and with its rows sorted by length; and a factor of all lengths, since TRL takes
minutes at 32,000."""
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SAMPLES = int(os.environ.get("BENCH_SAMPLES", "100000"))
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("vocabulary", TARGETS)
def test_a_step_is_nearly_as_fast_as_the_bare_network_and_faster_than_trl(tmp_path: Path, vocabulary: int) -> None:
    torch.set_num_threads(1)
    as_given, as_sorted, scale = TARGETS[vocabulary]
    policy, config = policy_of(vocabulary), parse_config({"algo": "dapo"})
    batch = batch_of(rows_of(policy, vocabulary, scale))
    learner, real = Learner(policy, config), sum(map(len, batch.rows))
    found = fastest(
        policy,
        {
            "bare": lambda: bare_gradient(policy, batch, config),
            "ours": lambda: learner.gradient(batch),
            **trl_gradients(policy, batch, tmp_path),
        },
    )
    rates = {name: real / seconds for name, (seconds, _) in found.items()}
    missed, floors = [], {"bare": 0.9, "trl": as_given, "trl, sorted": as_sorted}
    print(f"\nV={vocabulary}: {real} tokens, {batch.counts.tokens} in the loss")
    for name, rate in rates.items():
        print(f"  {name:16} {rate:7.0f} tokens/s   ours is {rates['ours'] / rate:5.2f} times as fast", flush=True)
        if name.startswith("trl"):
            assert found[name][1] == pytest.approx(found["ours"][1], abs=1e-5)
        if rates["ours"] < floors.get(name, 0) * rate:
            missed.append(f"{rates['ours'] / rate:.2f} times {name}, not {floors[name]}")
    assert not missed, "; ".join(missed)


def policy_of(vocabulary: int) -> HuggingFacePolicy:
    model = make_tiny(width=256, layers=4, heads=4, vocab_size=vocabulary, max_tokens=4096)
    return HuggingFacePolicy(model.train(), None, PolicyConfig())


def rows_of(policy: HuggingFacePolicy, vocabulary: int, scale: float) -> list[TrainingRow]:
    """A prompt, then turns of sampled tokens with a tool's output between them; lengths have a heavy tail."""
    rng = np.random.default_rng(0)
    lengths = np.clip(scale * rng.lognormal(5.3, 1.1, ROWS), 40, 1500).astype(int)
    rows = []
    for number, length in enumerate(lengths):
        mask, chunk = np.zeros(PROMPT + length, dtype=bool), np.full(PROMPT + length, -1, dtype=np.int32)
        place, turn = PROMPT, 0
        while place < len(mask):
            end = min(len(mask), place + int(rng.integers(10, 60)))
            mask[place:end], chunk[place:end] = True, turn
            place, turn = end + int(rng.integers(10, 60)), turn + 1
        rows.append(
            TrainingRow(
                sample_id=str(number),
                rollout_id=str(number),
                group_id=str(number // 8),
                token_ids=rng.integers(0, vocabulary, len(mask)).astype(np.int32),
                mask=mask,
                behaviour=np.zeros(len(mask), dtype=np.float32),
                advantage=np.full(len(mask), rng.normal(), dtype=np.float32),
                chunk=chunk,
                weight=0.0,
                positive=number % 2 == 0,
                reward=float(number % 2 == 0),
            )
        )
    for each in rows:  # nearly on policy, as samples are
        with torch.no_grad():
            logp = policy.score(collate([each])).logp.numpy()
        each.behaviour[each.mask] = logp + rng.normal(0, 0.1, len(logp))
    return rows


def batch_of(rows: Sequence[TrainingRow]) -> StepBatch:
    from dataclasses import replace

    from trainer.losses.weights import StepCounts

    tokens = sum(each.trained for each in rows)
    return StepBatch(
        rows=tuple(replace(each, weight=1 / tokens) for each in rows),
        counts=StepCounts(tokens=tokens, rollouts=len(rows)),
        groups=4,
    )


def bare_gradient(policy: HuggingFacePolicy, batch: StepBatch, config: TrainConfig) -> float:
    """The same micro-batches through the network, and the likelihood of the loss tokens: nothing else."""
    total = 0.0
    for each in packs(batch.rows, config.token_budget):
        micro, lengths = collate(each, packed=True), list(map(len, each))
        hidden = policy.model.base_model(
            input_ids=micro.input_ids,
            position_ids=packed_positions(lengths),
            row_lengths=lengths,
            use_cache=False,
        ).last_hidden_state
        logits = policy.model.lm_head(hidden.flatten(0, 1)[micro.source])
        loss = torch.nn.functional.cross_entropy(logits, micro.target, reduction="sum") / batch.counts.tokens
        loss.backward()
        total += float(loss.detach())
    return total


def trl_gradients(policy: HuggingFacePolicy, batch: StepBatch, folder: Path) -> dict[str, Callable[[], float]]:
    """TRL's own loss on the same model object, in micro-batches of 8; nothing where TRL is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            trl, datasets = importlib.import_module("trl"), importlib.import_module("datasets")
        except ImportError:
            print("\ntrl is not installed: no comparison")
            return {}
        settings = trl.GRPOConfig(
            output_dir=str(folder / "trl"),
            use_cpu=True,
            bf16=False,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=ROWS // 8,
            num_generations=8,
            loss_type="dapo",
            epsilon=0.2,
            epsilon_high=0.28,
            beta=0.0,
            temperature=1.0,
            gradient_checkpointing=False,
            report_to=[],
        )
        trainer = trl.GRPOTrainer(
            model=policy.model,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=settings,
            train_dataset=datasets.Dataset.from_list([{"prompt": "x"}] * 8),
            processing_class=make_tokenizer(),
        )
    trainer.current_gradient_accumulation_steps = settings.steps_per_generation

    def gradient(rows: Sequence[TrainingRow]) -> float:
        total = 0.0
        for start in range(0, len(rows), 8):
            loss = trainer._compute_loss(policy.model, trl_inputs(rows[start : start + 8], batch.counts.tokens))
            loss.backward()
            total += float(loss.detach())
        return total

    by_length = sorted(batch.rows, key=len)
    return {"trl": lambda: gradient(batch.rows), "trl, sorted": lambda: gradient(by_length)}


def trl_inputs(rows: Sequence[TrainingRow], tokens: int) -> dict[str, Any]:
    width = max(map(len, rows)) - PROMPT

    def padded(values: list[Any], dtype: torch.dtype) -> torch.Tensor:
        found = torch.zeros(len(rows), width, dtype=dtype)
        for number, value in enumerate(values):
            found[number, : len(value)] = torch.from_numpy(np.asarray(value)).to(dtype)
        return found

    return {
        "prompt_ids": torch.from_numpy(np.stack([each.token_ids[:PROMPT] for each in rows]).astype(np.int64)),
        "prompt_mask": torch.ones(len(rows), PROMPT, dtype=torch.long),
        "completion_ids": padded([each.token_ids[PROMPT:] for each in rows], torch.long),
        "completion_mask": padded([np.ones(len(each) - PROMPT) for each in rows], torch.long),
        "tool_mask": padded([each.mask[PROMPT:] for each in rows], torch.long),
        "old_per_token_logps": padded([each.behaviour[PROMPT:] for each in rows], torch.float32),
        "advantages": torch.tensor([float(each.advantage[0]) for each in rows]),
        "num_items_in_batch": torch.tensor(tokens),
    }


def fastest(
    policy: HuggingFacePolicy, what: dict[str, Callable[[], float]], rounds: int = ROUNDS
) -> dict[str, tuple[float, float]]:
    """Seconds of the fastest of some rounds, taken in turns since the machine is shared; and what was returned."""
    found = {name: (float("inf"), 0.0) for name in what}
    for _ in range(rounds):
        for name, run in what.items():
            policy.module.zero_grad()
            gc.collect()
            began = time.process_time()
            value = run()
            found[name] = (min(found[name][0], time.process_time() - began), value)
    return found


LONG = 32_768


def test_the_memory_of_a_long_row_is_bounded() -> None:
    """In a process of its own, for its peak: the logits alone of such a row would be 4.2 GB."""
    code = (
        "import sys, json, resource; from bench_trainer import long_row; before = resource.getrusage(0).ru_maxrss;"
        "long_row(int(sys.argv[1])); print(json.dumps([before, resource.getrusage(0).ru_maxrss]))"
    )
    peaks = {}
    for length in (LONG // 4, LONG):
        ended = subprocess.run(
            [sys.executable, "-c", code, str(length)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
            capture_output=True,
            text=True,
            check=True,
            timeout=1500,
        )
        before, after = json.loads(ended.stdout.splitlines()[-1])
        peaks[length] = (after - before) / 1024
        print(f"\n{length} tokens, all in the loss, V=32000: {peaks[length]:.0f} MB above the model", end="")
    print()
    assert peaks[LONG] < LONG * 32_000 * 4 / 2**20


def long_row(length: int) -> None:
    """Forward and backward of one row of which every token is trained."""
    torch.set_num_threads(1)
    model = make_tiny(width=64, layers=1, heads=4, vocab_size=32_000, max_tokens=LONG)
    policy = HuggingFacePolicy(model.train(), None, PolicyConfig())
    ids = np.random.default_rng(0).integers(0, 32_000, length).astype(np.int32)
    ones = np.ones(length, dtype=np.float32)
    each = TrainingRow(
        sample_id="s",
        rollout_id="r",
        group_id="g",
        token_ids=ids,
        mask=ones.astype(bool),
        behaviour=-10 * ones,
        advantage=ones,
        chunk=np.zeros(length, dtype=np.int32),
        weight=1 / length,
        positive=True,
        reward=1.0,
    )
    Learner(policy, parse_config({})).gradient(batch_of([each]))


def test_an_export_of_any_length_is_streamed_in_constant_memory(tmp_path: Path) -> None:
    """BENCH_SAMPLES rows (a million where there is time); growth is measured over the last three quarters."""
    write_samples(tmp_path, SAMPLES)
    began, used = time.perf_counter(), time.process_time()
    source = SampleSource(tmp_path)
    order = source.shuffled([0, 0])
    opened = time.perf_counter() - began
    groups, first = (source.group(int(number)) for number in order), 0.0
    seen = 0
    for batch in Planner(parse_config({"groups_per_step": 64})).batches(groups):
        seen += len(batch.rows)
        if not first and seen >= SAMPLES / 4:
            first = peak()
    last, seconds, used = peak(), time.perf_counter() - began, time.process_time() - used
    print(
        f"\n{seen} samples: opened in {opened:.1f} s, read and planned in {seconds:.1f} s ({used:.1f} s of CPU, "
        f"{seen / used:.0f} a second), peak {last:.0f} MB, growth {last - first:.1f} MB after the first quarter"
    )
    assert seen == SAMPLES
    assert last - first < 32


def write_samples(folder: Path, number: int) -> None:
    """Groups of 8 rows of 63 tokens, a batch of them written again and again under other names."""
    import pyarrow as pa
    from pyarrow import parquet

    size = 4096
    rows = [
        row(float(each % 2), task=f"t{each // 8}", attempt=each % 8 + 1, group_size=8, turns=[[8] * 60])
        for each in range(size)
    ]
    batch = arrow_batch(rows)
    with parquet.ParquetWriter(folder / "part-00000.parquet", batch.schema, compression="zstd") as writer:
        for start in range(0, number, size):
            piece = batch.slice(0, min(size, number - start))
            for name in ("group_id", "rollout_id", "sample_id"):
                text = [f"{start}/{value}" for value in piece.column(name).to_pylist()]
                piece = piece.set_column(piece.schema.get_field_index(name), name, pa.array(text))
            writer.write_batch(piece)
    write_manifest(folder, {"kind": "rl", "files": [{"name": "part-00000.parquet"}]})


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
