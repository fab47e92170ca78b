"""Rows behind one another instead of below: no layer computes padding, and attention sees each row by itself.

All layers but attention treat tokens one by one, so that for them a line of rows is one long row. Attention is
transformers' own, called for each row: what a block-diagonal mask would leave of it, without the mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

NAME = "sdpa_by_row"
"""Of the implementation, for transformers: without row lengths it is its `sdpa`."""


def attention_by_row(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    row_lengths: Sequence[int] | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Causal attention within rows of these lengths, which follow one another in `query` [1, heads, tokens, width]."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if row_lengths is None:
        whole, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return whole, None
    rows = zip(*(each.split_with_sizes(list(row_lengths), dim=2) for each in (query, key, value)), strict=True)
    found = [sdpa_attention_forward(module, *row, None, **options)[0] for row in rows]
    return torch.cat(found, dim=1), None


def enable_packing(model: Any) -> bool:
    """Have the model take packed rows, if it can and if they are faster; whether it does from now on.

    They are on a CPU. A model is left as it is if it looks further than one row in any other way than full attention:
    through a window, a convolution or a state. That is read from its settings, and then tried.
    """
    settings = model.config.get_text_config()
    kinds = getattr(settings, "layer_types", None) or ["full_attention"]
    windowed = getattr(settings, "sliding_window", None) is not None and getattr(settings, "layer_types", None) is None
    if model.config._attn_implementation != "sdpa" or set(kinds) != {"full_attention"} or windowed:
        return False
    if model.device.type != "cpu":
        return False
    _register()
    model.set_attn_implementation(NAME)
    if _agrees(model):
        return True
    model.set_attn_implementation("sdpa")
    return False


def packed_positions(lengths: Sequence[int]) -> Tensor:
    """[1, tokens]: every row counts from 0."""
    return torch.cat([torch.arange(length) for length in lengths])[None]


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    def mask(*, attention_mask: Tensor | None = None, **sizes: Any) -> Any:
        # Whole rows without a mask of their own ask for nothing but causality, which attention itself sees to. That
        # positions begin anew would be taken for a reason to make a full matrix.
        whole = sizes.get("q_length") == sizes.get("kv_length")
        return None if attention_mask is None and whole else sdpa_mask(attention_mask=attention_mask, **sizes)

    AttentionInterface.register(NAME, attention_by_row)
    AttentionMaskInterface.register(NAME, mask)


def _agrees(model: Any) -> bool:
    """Whether two packed rows give what each gives alone."""
    lengths = (5, 3)
    rows = torch.arange(sum(lengths)).remainder(model.get_input_embeddings().weight.shape[0]).split_with_sizes(lengths)
    with torch.no_grad():
        try:
            packed = model.base_model(
                input_ids=torch.cat(rows)[None],
                position_ids=packed_positions(lengths),
                row_lengths=lengths,
                use_cache=False,
            ).last_hidden_state[0]
        except (TypeError, ValueError, RuntimeError):
            return False
        alone = [model.base_model(input_ids=row[None], use_cache=False).last_hidden_state[0] for row in rows]
    return torch.allclose(packed, torch.cat(alone), atol=1e-4, rtol=1e-4)
