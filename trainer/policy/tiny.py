"""A language model of a hundred thousand parameters, made from nothing: for tests, demonstrations and a first run.

It is a Llama of two layers over bytes, so that it trains, saves and loads as every other model does. Its weights have a
standard deviation of 1/sqrt(fan-in): at this width the usual 0.02 does not learn to copy in any reasonable time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

CALL = "<|call|>"
"""Begins a call in an answer: `<|call|>NAME ARGUMENTS`. Arguments of one text are that text, others are JSON."""
SPECIAL = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
_END = 257
_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + (message['content'] or '') }}"
    "{% for call in message['tool_calls'] or [] %}{% set given = call['function']['arguments'] %}"
    "{% if given is mapping and given | length == 1 %}{% set given = given.values() | first %}{% endif %}"
    "{{ '<|call|>' + call['function']['name'] + ' ' + (given if given is string else given | tojson) }}"
    "{% endfor %}{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def make_tiny(
    *, seed: int = 0, width: int = 64, layers: int = 2, heads: int = 4, vocab_size: int = 264, max_tokens: int = 4096
) -> Any:
    """The model; the same seed gives the same weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=max_tokens,
        tie_word_embeddings=True,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=_END if vocab_size > _END else None,
    )
    model = LlamaForCausalLM(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=parameter.shape[1] ** -0.5, generator=generator)
    return model


def make_tokenizer() -> Any:
    """Bytes are ids 0 to 255 in order; special tokens follow."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    alphabet = bytes_to_unicode()
    core = Tokenizer(models.BPE(vocab={alphabet[byte]: byte for byte in range(256)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    core.add_tokens([AddedToken(CALL, special=False, normalized=False)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token=SPECIAL[0], eos_token=SPECIAL[1])
    tokenizer.chat_template = _TEMPLATE
    return tokenizer


def save_tiny(folder: Path, *, seed: int = 0, **shape: int) -> None:
    """Write a fresh model and its tokenizer, as transformers loads them."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    make_tiny(seed=seed, **shape).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
