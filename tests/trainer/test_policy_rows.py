"""Reading on in rows gives what the model gives at once, in families that mask, scale, cap and place differently."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.errors import UsageError
from trainer.policy.config import PolicyConfig
from trainer.policy.huggingface import HuggingFacePolicy
from trainer.policy.rows import Rows

SHAPE = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "qwen3": {"head_dim": 8},
    "mistral": {"sliding_window": 8},
    "gemma2": {"head_dim": 8, "sliding_window": 8},
    "gemma3_text": {"head_dim": 8, "sliding_window": 8},
    "gpt2": {"n_positions": 48},
    "granite": {"logits_scaling": 4.0},
}


def fresh(family: str, **settings: Any) -> HuggingFacePolicy:
    """A model of a family with random weights, and no tokenizer."""
    import transformers

    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **{**SHAPE, **settings})
    return HuggingFacePolicy(transformers.AutoModelForCausalLM.from_config(config).eval(), None, PolicyConfig())


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_of_unequal_length_read_on_together(family: str) -> None:
    policy = fresh(family, **FAMILIES[family])
    rows = Rows(policy)
    ids = torch.randint(0, 100, (3, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = policy.model(input_ids=ids, use_cache=False).logits[:, -1]
    begun = (30, 7, 21)
    rows.read(range(3), [0] * 3, [each[:length].tolist() for each, length in zip(ids, begun, strict=True)])
    found = rows.read(range(3), begun, [each[length:].tolist() for each, length in zip(ids, begun, strict=True)])
    assert torch.allclose(found, expected, atol=1e-5)


def test_a_row_is_copied_stored_and_restored() -> None:
    policy = fresh("qwen3", head_dim=8)
    rows = Rows(policy)
    ids = list(range(20))
    (expected,) = rows.read([0], [0], [ids])
    stored = rows.store(0, 15)
    rows.copy(0, 3, 15)
    rows.clear()
    rows.restore(1, stored, 12)
    (found,) = rows.read([1], [12], [ids[12:]])
    assert torch.allclose(found, expected, atol=1e-5)


def test_a_model_with_another_memory_is_refused() -> None:
    with pytest.raises(UsageError, match="MambaForCausalLM cannot be served: it keeps more than keys and values"):
        Rows(fresh("mamba"))


def test_weights_that_are_no_numbers_are_refused() -> None:
    policy = fresh("qwen3", head_dim=8)
    with torch.no_grad():
        policy.model.get_output_embeddings().weight[0] = float("nan")
    with pytest.raises(UsageError, match="not finite"):
        Rows(policy)
