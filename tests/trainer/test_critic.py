"""PPO with a value head: what it expects, what tokens are credited with, and that it lives as long as the policy."""

from __future__ import annotations

import importlib
import json
import warnings
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from left_out import leave_out
from rl_rows import export, group, row
from safetensors.torch import load_file, save_file
from tiny_policy import VOCAB, batch_of, gradient, groups, policy, request

from harness.errors import UsageError
from trainer.config import parse_config
from trainer.credit import by_critic, settled
from trainer.loop import Outcome, train
from trainer.losses.value import CriticConfig, value_loss
from trainer.policy.huggingface import HuggingFacePolicy
from trainer.policy.tiny import save_tiny
from trainer.policy.value import make_value_head
from trainer.samples.batch import StepBatch, TrainingRow
from trainer.step import Learner

PLAIN = {"algo": "ppo", "whiten": False}


def with_head(*, bias: float = 0.0, weight: float = 0.0) -> HuggingFacePolicy:
    """The exact policy with a critic that expects `bias`, and more or less of it by what it reads."""
    plain = policy()
    head = make_value_head(16, torch.float64)
    with torch.no_grad():
        head.bias.fill_(bias)
        head.weight.normal_(std=weight, generator=torch.Generator().manual_seed(1)) if weight else None
    return HuggingFacePolicy(plain.model, None, plain._config, head)


def judged(rows: list[Any], values: list[list[float]], **critic: Any) -> list[TrainingRow]:
    """The rows of one group, where the critic expects these values before each trained token."""
    batch = batch_of([rows], request(**PLAIN, critic=critic))
    told = {each.sample_id: np.float32(own) for each, own in zip(batch.rows, values, strict=True)}
    return list(by_critic(batch, told, CriticConfig(**critic)).rows)


def test_the_observation_between_two_turns_costs_no_discount() -> None:
    # Trained are 8 | 9 10, with an observation between: deltas 1 - .6, .5 * .6 - .4, .5 * .4 - .2.
    (one,) = judged([row(1, turns=[[8], [9, 10]])], [[0.2, 0.4, 0.6]], gamma=0.5, lam=0.5)
    last = 0.4
    middle = -0.1 + 0.25 * last
    first = 0.0 + 0.25 * middle
    assert one.advantage[one.places].tolist() == pytest.approx([first, middle, last])
    assert one.returns is not None
    assert one.returns[one.places].tolist() == pytest.approx([first + 0.2, middle + 0.4, 1.0])
    assert one.token_ids[one.places].tolist() == [8, 9, 10]


def test_without_discounts_a_token_is_credited_with_what_came_less_what_was_expected() -> None:
    good, bad = judged([row(1, turns=[[8, 9]]), row(0, attempt=2, turns=[[8]])], [[0.5, 0.75], [0.5]])
    assert good.advantage[good.places].tolist() == [0.5, 0.25] and bad.advantage[bad.places].tolist() == [-0.5]


def test_a_group_of_one_and_groups_that_agree_teach_a_critic() -> None:
    batch = batch_of([[row(1)], group([0, 0], task="b")], request(**PLAIN, critic={}))
    assert len(batch.rows) == 3 and not batch.filtered


def test_whitened_advantages_have_mean_0_and_deviation_1_over_trained_tokens() -> None:
    rows = judged([row(1, turns=[[8, 9]]), row(0, attempt=2, turns=[[8]])], [[0.5, 0.75], [0.5]])
    done = settled(rows, whiten=True, negative_weight=1.0)
    found = np.concatenate([each.advantage[each.places] for each in done])
    # .5 .25 -.5: mean 1/12, squares (5/12)^2 + (2/12)^2 + (7/12)^2 = 78/144 over n - 1 = 2.
    assert found.tolist() == pytest.approx([0.80064, 0.32026, -1.12090], abs=1e-5)
    assert found.mean() == pytest.approx(0, abs=1e-6) and found.std(ddof=1) == pytest.approx(1)
    halved = settled(rows, whiten=True, negative_weight=0.5)[1]
    assert halved.advantage[halved.places].tolist() == pytest.approx([-0.56045], abs=1e-5)


def test_one_token_and_tokens_that_agree_are_divided_by_nothing() -> None:
    (alone,) = settled(judged([row(1, turns=[[8]])], [[0.25]]), whiten=True, negative_weight=1.0)
    assert alone.advantage[alone.places].tolist() == [0.75]
    same = settled(judged([row(1, turns=[[8, 9]])], [[0.5, 0.5]]), whiten=True, negative_weight=1.0)[0]
    assert same.advantage[same.places].tolist() == [0, 0]


def test_reinforce_plus_plus_is_whitened_over_the_tokens_of_the_step() -> None:
    made = batch_of([[row(1, turns=[[8, 9]]), row(0, attempt=2, turns=[[8]])]], request(algo="reinforce"))
    found = np.concatenate([each.advantage[each.places] for each in made.rows])
    assert found.tolist() == pytest.approx([0.57735, 0.57735, -1.15470], abs=1e-5)


def test_a_step_asks_its_own_critic() -> None:
    using, config = with_head(bias=0.25), request(**PLAIN, critic={"clip": None})
    batch = batch_of([[row(1, turns=[[8, 9]]), row(0, attempt=2, turns=[[8]])]], config)
    metrics = Learner(using, config).step(batch)
    assert metrics["value_mean"] == pytest.approx(0.25) and metrics["explained_variance"] == pytest.approx(0)
    assert metrics["advantage_mean"] == pytest.approx((0.75 + 0.75 - 0.25) / 3)
    assert metrics["loss_value"] == pytest.approx((0.75**2 + 0.75**2 + 0.25**2) / 2 / 3)


def test_a_critic_moves_the_policy_by_its_advantages_alone() -> None:
    config = request(**PLAIN, critic={})
    _, found = gradient(batch_of(groups(), config), config, with_head(bias=0.25))
    alone = request(**PLAIN, advantage="none", filters={"zero_variance": "keep"})
    batch = batch_of(groups(), alone)
    less = [replace(each, advantage=each.advantage - np.float32(0.25)) for each in batch.rows]
    _, plain = gradient(replace(batch, rows=tuple(less)), alone, policy())
    assert torch.allclose(found[:-17], plain, atol=1e-6) and found[-17:].norm() > 0


def test_a_value_moves_by_about_its_rate_whatever_the_width() -> None:
    using, config = with_head(), request(**PLAIN, critic={"lr": 0.05}, optimizer={"lr": 1e-9, "warmup_steps": 0})
    batch = batch_of([[row(1, attempt=number) for number in range(1, 5)]], config)
    learner = Learner(using, config)
    learner.step(batch)
    again = learner.step(batch)
    assert again["value_mean"] is not None and 0.01 < again["value_mean"] < 0.06


@pytest.mark.parametrize("budget", [2, 90])
def test_the_cut_into_micro_batches_does_not_matter(budget: int) -> None:
    config = request(algo="ppo", critic={"lam": 0.9}, token_budget=100_000)
    batch, using = batch_of(groups(), config), with_head(bias=0.3, weight=0.5)
    whole = gradient(batch, config, using)
    found = gradient(batch, request(algo="ppo", critic={"lam": 0.9}, token_budget=budget), using)
    assert found[0] == pytest.approx(whole[0], abs=1e-6) and torch.allclose(found[1], whole[1], atol=1e-6)


def test_the_critics_gradient_is_that_of_finite_differences() -> None:
    using, config = with_head(bias=0.3, weight=0.5), request(**PLAIN, critic={"clip": None})
    batch = batch_of(groups(), config)
    _, found = gradient(batch, config, using)
    assert using.value_head is not None
    parameters = list(using.value_head.parameters())
    start = torch.nn.utils.parameters_to_vector(parameters).detach()
    direction = torch.randn(17, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    fixed = Learner(using, config)._judged(batch)

    def loss(at: torch.Tensor) -> float:
        torch.nn.utils.vector_to_parameters(at, parameters)
        held = Learner(using, config)
        held._judged = lambda batch: batch  # type: ignore[method-assign]  # expected once, as in a step
        return held.gradient(fixed)

    slope = (loss(start + 1e-5 * direction) - loss(start - 1e-5 * direction)) / 2e-5
    assert slope == pytest.approx(float(found[-17:] @ direction), rel=1e-5)


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
    tables = {"algo": "ppo", "critic": {}, "groups_per_step": 2, "updates_per_step": 2, "seed": 3, **settings}
    return train(data, model, out, request(**tables), resume=resume)


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_a_resumed_critic_is_bitwise_the_one_that_never_stopped(tmp_path: Path, data: Path, model: str) -> None:
    go(data, model, tmp_path / "straight", steps=6)
    go(data, model, tmp_path / "halves", steps=3)
    go(data, model, tmp_path / "halves", steps=6, resume=True)
    for name in ("model.safetensors", "value_head.safetensors"):
        one, other = (load_file(tmp_path / run / "model" / name) for run in ("straight", "halves"))
        assert all(torch.equal(one[key], other[key]) for key in one)


def test_the_model_loads_in_transformers_as_it_is_and_a_later_run_takes_the_critic_up(
    tmp_path: Path, data: Path, model: str
) -> None:
    from transformers import AutoModelForCausalLM

    outcome = go(data, model, tmp_path / "out")
    _, told = AutoModelForCausalLM.from_pretrained(outcome.model, output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"]
    first = lines(tmp_path / "out")[0]
    assert first["value_mean"] == 0 and first["loss_value"] > 0
    go(data, str(outcome.model), tmp_path / "on", steps=1)
    assert lines(tmp_path / "on")[0]["value_mean"] != 0
    plain = go(data, str(outcome.model), tmp_path / "plain", algo="grpo", critic=None)
    assert plain.model is not None and not (plain.model / "value_head.safetensors").exists()


def test_a_value_head_of_another_model_is_one_line(tmp_path: Path, data: Path, model: str) -> None:
    outcome = go(data, model, tmp_path / "out", steps=1)
    assert outcome.model is not None
    file = outcome.model / "value_head.safetensors"
    save_file({"weight": torch.zeros(1, 3), "bias": torch.zeros(1)}, file)
    for _ in range(2):
        with pytest.raises(UsageError, match="is no value head for this model") as caught:
            go(data, str(outcome.model), tmp_path / "on")
        assert "\n" not in str(caught.value) and not (tmp_path / "on").exists()
        file.write_bytes(b"torn")


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft reads names that transformers is giving up
def test_adapters_and_a_critic_are_trained_together(tmp_path: Path, data: Path, model: str) -> None:
    pytest.importorskip("peft")
    outcome = go(data, model, tmp_path / "out", steps=2, policy={"lora": {"rank": 2}}, optimizer={"lr": 0.1})
    assert outcome.model is not None
    assert load_file(outcome.model / "value_head.safetensors")["weight"].any()
    (newest,) = (tmp_path / "out" / "checkpoints").iterdir()
    assert all("lora_" in name or "value_head" in name for name in load_file(newest / "weights.safetensors"))


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"algo": "sft", "critic": {}}, "sft takes no critic"),
        ({"algo": "ipa", "critic": {}}, "ipa takes no critic"),
        ({"algo": "ppo", "critic": {}, "advantage": "group_mean"}, "takes the place of advantage"),
        ({"algo": "ppo", "critic": {"lam": 2}}, "critic.lam"),
        ({"algo": "ppo", "gamma": 0.9}, "critic.gamma"),
    ],
)
def test_what_does_not_go_together_is_one_line(tables: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=r"^training: ") as caught:
        parse_config(tables)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.timeout(400)  # importing a witness may take minutes
def test_the_generalised_advantage_and_the_value_loss_are_verls() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            algos: Any = importlib.import_module("verl.trainer.ppo.core_algos")
        except Exception as error:  # noqa: BLE001 - whatever a foreign package raises, it cannot be asked
            leave_out(f"verl cannot be imported: {str(error).splitlines()[0]}")
    random = np.random.default_rng(0)
    mask = random.random((5, 17)) < 0.6
    mask[:, 0], mask[:, 1] = False, True
    values, moved = random.normal(size=(2, 5, 17)).astype(np.float32)
    rewards = np.zeros((5, 17), dtype=np.float32)
    for number, own in enumerate(mask):
        rewards[number, np.flatnonzero(own)[-1]] = random.normal()
    there = torch.from_numpy(mask).float()
    estimated, returned = algos.compute_gae_advantage_return(
        torch.from_numpy(rewards), torch.from_numpy(values), there, gamma=0.9, lam=0.8
    )
    (template,) = batch_of([[row(1)]], request(**PLAIN, critic={})).rows
    blank = np.zeros(17, dtype=np.float32)
    rows = [
        replace(
            template,
            sample_id=str(number),
            token_ids=np.zeros(17, dtype=np.int32),
            mask=own,
            advantage=blank + rewards[number].sum(),
        )
        for number, own in enumerate(mask)
    ]
    batch = replace(batch_of([[row(1)]], request(**PLAIN, critic={})), rows=tuple(rows))
    told = {str(number): values[number][own] for number, own in enumerate(mask)}
    made: StepBatch = by_critic(batch, told, CriticConfig(gamma=0.9, lam=0.8))
    done = settled(made.rows, whiten=True, negative_weight=1.0)
    for number, (each, own) in enumerate(zip(done, mask, strict=True)):
        assert each.returns is not None
        assert each.returns[own].tolist() == pytest.approx(returned[number][own].tolist(), abs=1e-5)
        assert each.advantage[own].tolist() == pytest.approx(estimated[number][own].tolist(), abs=1e-5)
    now, then, target = (torch.from_numpy(each) for each in (moved, values, returned.numpy()))
    theirs, _ = algos.compute_value_loss(
        vpreds=now, returns=target, values=then, response_mask=there, cliprange_value=0.5, loss_agg_mode="token-mean"
    )
    ours = value_loss(now[there > 0], then[there > 0], target[there > 0], clip=0.5).mean()
    assert float(ours) == pytest.approx(float(theirs), abs=1e-5)
