"""Rows packed behind one another are computed as each alone; a model that would mix them is not packed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_policy import VOCAB, batch_of, gradient, groups, policy, request

from trainer.policy.config import PolicyConfig
from trainer.policy.huggingface import HuggingFacePolicy, recompute_activations
from trainer.policy.packing import enable_packing
from trainer.policy.tiny import make_tiny
from trainer.samples.collate import collate

SMALL = {"vocab_size": VOCAB, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}


class Padded(HuggingFacePolicy):
    """Rows below each other, although they could be packed."""

    @property
    def packs(self) -> bool:
        return False


@pytest.mark.parametrize("algo", ["cispo", "gspo", "ipa"])
def test_loss_and_gradient_are_those_of_padded_rows_and_of_rows_one_by_one(algo: str) -> None:
    packed, padded = policy(), Padded(policy().model, None, PolicyConfig())
    assert packed.packs and not padded.packs
    config = request(algo=algo)
    one_by_one = request(algo=algo, token_budget=2)
    batch = batch_of(groups(3), config)
    expected = gradient(batch, one_by_one, padded)
    for found in (gradient(batch, config, packed), gradient(batch, config, padded)):
        assert found[0] == pytest.approx(expected[0], rel=1e-9, abs=1e-10)
        assert torch.allclose(found[1], expected[1], rtol=1e-9, atol=1e-10)


def test_a_row_does_not_see_its_neighbours() -> None:
    tiny = policy()
    first, *others = batch_of(groups(), request()).rows
    alone = tiny.score(collate([first])).logp
    for rows in ([first, *others], [first, *others[::-1]]):
        assert torch.allclose(tiny.score(collate(rows, packed=True)).logp[: len(alone)], alone, atol=1e-12)


def test_layers_computed_twice_see_the_same_rows() -> None:
    kept, again = policy(), policy()
    recompute_activations(again.model)
    batch = batch_of(groups(), config := request())
    assert torch.allclose(gradient(batch, config, again)[1], gradient(batch, config, kept)[1], rtol=1e-9, atol=1e-12)


def test_others_may_go_on_calling_the_model_with_a_mask() -> None:
    model = make_tiny(width=16, heads=2, vocab_size=VOCAB)
    ids, padding = torch.arange(1, 7)[None], torch.zeros(1, 3, dtype=torch.long)
    expected = model(input_ids=ids).logits
    assert enable_packing(model)
    mask = torch.cat([padding, torch.ones_like(ids)], dim=1)
    found = model(
        input_ids=torch.cat([padding, ids], dim=1), attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0)
    ).logits
    assert torch.allclose(found[:, 3:], expected, atol=1e-5)


def made(kind: str, **more: Any) -> Any:
    import transformers

    return getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**SMALL, **more)).eval()


def test_grouped_heads_are_packed_exactly() -> None:
    model = made("Qwen3", **HEADS, head_dim=4)
    ids = torch.arange(9)
    alone = [model.model(input_ids=part[None], use_cache=False).last_hidden_state[0] for part in ids.split((6, 3))]
    assert enable_packing(model)
    positions = torch.cat([torch.arange(6), torch.arange(3)])[None]
    found = model.model(input_ids=ids[None], position_ids=positions, row_lengths=(6, 3), use_cache=False)
    assert torch.allclose(found.last_hidden_state[0], torch.cat(alone), atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        lambda: made("Mistral", **HEADS, sliding_window=4),
        lambda: made("Qwen2", **HEADS, use_sliding_window=True, sliding_window=4, max_window_layers=1),
        lambda: made("Mamba", state_size=4),
    ],
    ids=["a window", "a window in some layers", "a state"],
)
def test_a_model_that_would_mix_rows_is_padded(model: Any) -> None:
    built = model()
    before = built.config._attn_implementation
    assert not enable_packing(built)
    assert built.config._attn_implementation == before
