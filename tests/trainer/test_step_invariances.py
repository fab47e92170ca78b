"""What must not matter does not: padding, the cut into micro-batches, order, and whatever is masked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from rl_rows import row
from tiny_policy import VOCAB, batch_of, cut, gradient, groups, policy, request

from trainer.losses.recipes import RECIPES
from trainer.losses.tokens import Tokens
from trainer.policy.huggingface import HuggingFacePolicy
from trainer.samples.batch import TrainingRow
from trainer.samples.collate import collate

ANY = pytest.mark.parametrize("algo", RECIPES)
CLOSE = {"rtol": 1e-9, "atol": 1e-10}


@pytest.fixture(scope="module")
def tiny() -> HuggingFacePolicy:
    return policy()


def same(found: tuple[float, torch.Tensor], wanted: tuple[float, torch.Tensor]) -> bool:
    return bool(found[0] == pytest.approx(wanted[0], rel=1e-9, abs=1e-10)) and torch.allclose(
        found[1], wanted[1], **CLOSE
    )


def one_by_one(tiny: HuggingFacePolicy, each: TrainingRow) -> torch.Tensor:
    """The textbook: the whole row alone, all logits, one softmax."""
    ids = torch.from_numpy(each.token_ids.astype(np.int64))
    logits = tiny.model(input_ids=ids[None], use_cache=False).logits[0, :-1] / each.temperature
    chosen = logits.log_softmax(-1).gather(1, ids[1:, None]).squeeze(1)
    return chosen[torch.from_numpy(each.mask[1:])]


@pytest.mark.case("G7")
@pytest.mark.case("G8")
@pytest.mark.case("G10")
def test_log_probabilities_are_those_of_each_row_alone_at_its_temperature(tiny: HuggingFacePolicy) -> None:
    batch = batch_of(groups(), request())
    rows = [replace(each, temperature=0.5 + 0.25 * (number % 3)) for number, each in enumerate(batch.rows)]
    found = tiny.score(collate(rows, pad_id=VOCAB - 1)).logp
    expected = torch.cat([one_by_one(tiny, each) for each in rows])
    assert torch.allclose(found, expected, atol=1e-12)


def test_entropy_is_that_of_the_distribution_sampled_from(tiny: HuggingFacePolicy) -> None:
    (each, *_) = batch_of(groups(1), request()).rows
    ids = torch.from_numpy(each.token_ids.astype(np.int64))
    logits = tiny.model(input_ids=ids[None], use_cache=False).logits[0, :-1]
    expected = torch.distributions.Categorical(logits=logits).entropy()[torch.from_numpy(each.mask[1:])]
    scores = tiny.score(collate([each]))
    assert torch.allclose(scores.entropy, expected) and not scores.entropy.requires_grad


@ANY
@pytest.mark.case("G4")
@pytest.mark.case("G14")
def test_neither_padding_nor_the_cut_into_micro_batches_matters(tiny: HuggingFacePolicy, algo: str) -> None:
    whole = gradient(batch_of(groups(), request(algo=algo)), config := request(algo=algo, token_budget=100_000), tiny)
    assert whole[1].norm() > 1e-4
    for budget in (2, 90):
        assert same(gradient(batch_of(groups(), config), request(algo=algo, token_budget=budget), tiny), whole)


@ANY
def test_the_order_of_groups_does_not_matter(tiny: HuggingFacePolicy, algo: str) -> None:
    config, given = request(algo=algo, token_budget=120), groups()
    assert same(gradient(batch_of(given[::-1], config), config, tiny), gradient(batch_of(given, config), config, tiny))


@ANY
@pytest.mark.case("G3")
@pytest.mark.case("G6")
@pytest.mark.case("G15")
def test_attempts_that_infrastructure_took_leave_the_gradient_as_it_is(tiny: HuggingFacePolicy, algo: str) -> None:
    config, given = request(algo=algo), groups()
    lost = [row(None, task=f"t{task}", attempt=9, outcome="infra_error", failure="infra_oom") for task in range(2)]
    with_lost = [[*own, extra] for own, extra in zip(given, lost, strict=True)]
    assert same(gradient(batch_of(with_lost, config), config, tiny), gradient(batch_of(given, config), config, tiny))


@ANY
def test_whatever_stands_at_masked_positions_reaches_nothing(tiny: HuggingFacePolicy, algo: str) -> None:
    config = request(algo=algo)
    clean = batch_of(groups(), config)

    def over(values: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        return np.where(mask, values, np.resize(np.float32([np.nan, -np.inf, np.inf, -2000.0]), len(mask)))

    dirty = [
        replace(each, behaviour=over(each.behaviour, each.mask), advantage=over(each.advantage, each.mask))
        for each in clean.rows
    ]
    assert same(gradient(replace(clean, rows=tuple(dirty)), config, tiny), gradient(clean, config, tiny))


@pytest.mark.case("G1")
def test_groups_that_agree_give_no_gradient_at_all(tiny: HuggingFacePolicy) -> None:
    config = request(filters={"zero_variance": "keep"})
    same_reward = [[replace(each, reward=1.0) for each in own] for own in groups()]
    loss, found = gradient(batch_of(same_reward, config), config, tiny)
    assert loss == 0 and not found.any()


@ANY
@pytest.mark.case("G13")
def test_updates_of_a_step_are_each_weighed_by_their_own_tokens(tiny: HuggingFacePolicy, algo: str) -> None:
    config, given = request(algo=algo, advantage="group_mean", whiten=False), groups(4)
    parts = batch_of(given, config).split(2, config.weighting or config.recipe.weighting)
    assert [len({each.group_id for each in part.rows}) for part in parts] == [2, 2]
    for part, alone in zip(parts, (given[0::2], given[1::2]), strict=True):
        assert same(gradient(part, config, tiny), gradient(batch_of(alone, config), config, tiny))


@pytest.mark.parametrize(
    ("algo", "objective"),
    [
        # Wide bounds: where a token is clipped nothing is left, and on a bound nothing is differentiable.
        ("grpo", {"ratio_min": 0.0, "ratio_max": 1e9}),
        ("gspo", {"ratio_min": 0.0, "ratio_max": 1e9}),
        ("k2", {"log_ratio_min": -20.0, "log_ratio_max": 20.0}),
        ("reinforce", {}),
        ("sft", {}),
    ],
)
def test_the_gradient_is_that_of_finite_differences(algo: str, objective: dict[str, float]) -> None:
    tiny, config = policy(), request(algo=algo, objective=objective)
    batch = batch_of(groups(), config)
    _, found = gradient(batch, config, tiny)
    assert slope(lambda: gradient(batch, config, tiny)[0], tiny) == pytest.approx(along(found), rel=1e-6)


@pytest.mark.parametrize("algo", ["cispo", "glm", "topr", "ipa"])
def test_where_a_weight_is_held_fixed_the_gradient_is_that_of_the_weighted_likelihood(algo: str) -> None:
    tiny, config = policy(), request(algo=algo)
    batch = batch_of(groups(), config)
    _, found = gradient(batch, config, tiny)
    micro = collate(batch.rows)
    logp = tiny.score(micro).logp.detach().requires_grad_()
    given = {name: getattr(micro, name) for name in ("row", "chunk", "positive")}
    tokens = Tokens(logp=logp, behaviour=micro.behaviour.double(), advantage=micro.advantage.double(), **given)
    loss = config.recipe.objective(tokens, config.objective_config).loss
    (push,) = torch.autograd.grad((micro.weight * loss).sum(), logp)

    def weighted_likelihood() -> float:
        with torch.no_grad():
            return float((push * tiny.score(micro).logp).sum())

    assert slope(weighted_likelihood, tiny) == pytest.approx(along(found), rel=1e-6)


def direction(number: int) -> torch.Tensor:
    return torch.randn(number, dtype=torch.float64, generator=torch.Generator().manual_seed(7))


def along(found: torch.Tensor) -> float:
    """The gradient along a fixed direction."""
    return float(found @ direction(len(found)))


def slope(value: Callable[[], float], tiny: HuggingFacePolicy, size: float = 1e-6) -> float:
    """(f(x + h d) - f(x - h d)) / 2h along the same direction."""
    start = torch.nn.utils.parameters_to_vector(tiny.module.parameters()).detach()
    found = []
    for sign in (1, -1):
        moved = start + sign * size * direction(len(start))
        torch.nn.utils.vector_to_parameters(moved, tiny.module.parameters())
        found.append(value())
    return (found[0] - found[1]) / (2 * size)


@pytest.mark.case("G5")
def test_a_row_without_weight_fills_up_and_adds_nothing(tiny: HuggingFacePolicy) -> None:
    config = request(token_budget=2)
    batch = batch_of(groups(), config)
    filled = replace(batch, rows=(*batch.rows, replace(batch.rows[0], weight=0.0)))
    assert same(gradient(filled, config, tiny), gradient(batch, config, tiny))


def test_rows_contribute_by_addition(tiny: HuggingFacePolicy) -> None:
    config = request()
    batch = batch_of(groups(), config)
    first = [number % 2 == 0 for number in range(len(batch.rows))]
    odd, even = cut(batch, first), cut(batch, [not each for each in first])
    found = [gradient(part, config, tiny) for part in (odd, even)]
    total = (found[0][0] + found[1][0], found[0][1] + found[1][1])
    assert same(total, gradient(batch, config, tiny))
