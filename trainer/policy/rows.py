"""Sequences that a model reads on with, each in a row of its own: what decoding many of them together needs.

A row holds the keys and values of the tokens that its sequence has read. Rows are of unequal length and the positions
behind a row's end hold leftovers, which no mask shows and later tokens overwrite. So a sequence joins and leaves
without the others being moved, and any causal model of transformers works that keeps keys and values and nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from harness.errors import UsageError
from trainer.policy.huggingface import HuggingFacePolicy
from trainer.policy.logprobs import logits_of

_LONGEST_PROOF = 1024
"""A wider window is taken on trust: to read beyond it at every load would take too long."""
_BLOCK = 128
"""Room grows by so many positions at least."""

Stored = list[tuple[Tensor, Tensor]]
"""Keys and values of a sequence outside of any row: [heads, tokens, width] of each layer."""


class Rows:
    """See the module. All methods belong to one thread."""

    def __init__(self, policy: HuggingFacePolicy) -> None:
        """Raises UsageError for a model that keeps anything but keys and values."""
        self._policy = policy
        self._base = policy.model.base_model
        self._device = policy.model.get_output_embeddings().weight.device
        known = inspect.signature(self._base.forward).parameters
        self._keyword = "cache" if "cache" in known else "past_key_values"
        self._layers = [_Layer() for _ in range(policy.model.config.get_text_config().num_hidden_layers)]
        self._cache: Any = Cache(layers=self._layers)
        self._limit = policy.max_tokens
        self._masks = _Masks(policy.model)
        self._prove()

    @property
    def bytes_per_token(self) -> int:
        """What one token costs in memory."""
        return sum(2 * each.keys.shape[1] * each.keys.shape[3] * each.keys.element_size() for each in self._layers)

    @torch.inference_mode()
    def read(self, rows: Sequence[int], starts: Sequence[int], tokens: Sequence[Sequence[int]]) -> Tensor:
        """Read tokens into rows, from where each row's sequence has come to; the logits [n, vocabulary] after the last.

        Each row has at least one token. The logits are fp32.
        """
        counts = [len(each) for each in tokens]
        width, end = max(counts), max(start + count for start, count in zip(starts, counts, strict=True))
        ids = torch.tensor([[*each, *[0] * (width - len(each))] for each in tokens], device=self._device)
        begin = torch.tensor(starts, device=self._device)
        positions = begin[:, None] + torch.arange(width, device=self._device)
        where = _Where(rows, positions, end, width, self._device)
        for layer in self._layers:
            layer.where = where
        legal = positions if self._limit is None else positions.clamp(max=self._limit - 1)
        hidden = self._base(
            input_ids=ids,
            attention_mask=self._masks.of(positions, end),
            position_ids=legal,
            use_cache=True,
            **{self._keyword: self._cache},
        ).last_hidden_state
        last = hidden[:, 0] if width == 1 else hidden[torch.arange(len(rows)), torch.tensor(counts) - 1]
        head = self._policy.head
        return logits_of(last, head.weight, head.bias, head)

    @torch.inference_mode()
    def copy(self, source: int, target: int, length: int) -> None:
        """Give a row the first `length` tokens of another."""
        for layer in self._layers:
            layer.reserve(max(source, target) + 1, length)
            layer.keys[target, :, :length] = layer.keys[source, :, :length]
            layer.values[target, :, :length] = layer.values[source, :, :length]

    @torch.inference_mode()
    def store(self, row: int, length: int) -> Stored:
        """A copy of a row's first `length` tokens."""
        return [(each.keys[row, :, :length].clone(), each.values[row, :, :length].clone()) for each in self._layers]

    @torch.inference_mode()
    def restore(self, row: int, stored: Stored, length: int) -> None:
        """Give a row the first `length` tokens of what was stored."""
        for layer, (keys, values) in zip(self._layers, stored, strict=True):
            layer.reserve(row + 1, length)
            layer.keys[row, :, :length] = keys[:, :length]
            layer.values[row, :, :length] = values[:, :length]

    def clear(self) -> None:
        """Forget all rows, and give their memory back."""
        for layer in self._layers:
            layer.keys, layer.values = layer.keys[:1, :, :1].clone(), layer.values[:1, :, :1].clone()

    def _prove(self) -> None:
        """Reading in two parts has to give what the model gives at once."""
        model = self._policy.model
        length = min(self._masks.proof, self._limit or self._masks.proof)
        ids = torch.arange(1, length + 1).remainder(self._policy.vocab_size).tolist()
        try:
            with torch.inference_mode():
                whole = model(input_ids=torch.tensor([ids], device=self._device), use_cache=False).logits[0, -1]
            self.read([0], [0], [ids[:-3]])
            parts = self.read([0], [length - 3], [ids[-3:]])[0]
            finite = bool(whole.isfinite().all())
            same = all(each.is_initialized for each in self._layers) and torch.allclose(
                parts, whole.float(), atol=1e-3, rtol=1e-3
            )
        except (RuntimeError, TypeError, AttributeError, ValueError, IndexError):
            finite, same = True, False
        if not finite:
            raise UsageError("the weights give log-probabilities that are not finite: they are damaged")
        if not same:
            raise UsageError(f"{type(model).__name__} cannot be served: it keeps more than keys and values of its past")


class _Masks:
    """What a query may look at, in the form that the model's attention expects."""

    def __init__(self, model: Any) -> None:
        settings = model.config.get_text_config()
        self._added = settings._attn_implementation != "sdpa"  # eager attention adds a mask to its scores
        kinds = set(getattr(settings, "layer_types", None) or ())
        slides = "sliding_attention" in kinds or not kinds
        self._window: int | None = (getattr(settings, "sliding_window", None) or None) if slides else None
        self._kinds = kinds if len(kinds) > 1 else set()
        self.proof = 8 if self._window is None else min(self._window, _LONGEST_PROOF) + 8
        """Tokens after which it has been seen that the masks are right."""

    def of(self, positions: Tensor, end: int) -> Any:
        """For queries at `positions` [rows, width], of keys at 0 to `end`; by kind of layer where there are several."""
        keys, queries = torch.arange(end, device=positions.device), positions[:, None, :, None]
        seen = keys <= queries
        if self._window is None:
            return self._form(seen)
        near = self._form(seen & (keys > queries - self._window))
        if not self._kinds:
            return near
        return {kind: near if kind == "sliding_attention" else self._form(seen) for kind in self._kinds}

    def _form(self, seen: Tensor) -> Tensor:
        if not self._added:
            return seen
        return torch.zeros(seen.shape, device=seen.device).masked_fill_(~seen, torch.finfo(torch.float32).min)


class _Where:
    """What a forward pass writes and sees: `rows` at `positions`, then all of `rows` up to `end`."""

    def __init__(self, rows: Sequence[int], positions: Tensor, end: int, width: int, device: Any) -> None:
        self.index = torch.tensor(rows, device=device)
        self.positions = positions
        self.rows, self.end = max(rows) + 1, end
        self.needed = int(positions[:, -1].max()) + 1 if width > 1 else end
        self.first = list(rows) == list(range(len(rows)))


class _Layer(CacheLayerMixin):  # type: ignore[misc]
    """Keys and values of one layer: [rows, heads, positions, width]."""

    keys: Tensor
    values: Tensor
    where: _Where

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys = torch.zeros((1, key_states.shape[1], 1, key_states.shape[3]), dtype=key_states.dtype).to(
            key_states.device
        )
        self.values = torch.zeros((1, value_states.shape[1], 1, value_states.shape[3]), dtype=value_states.dtype).to(
            value_states.device
        )
        self.is_initialized = True

    def reserve(self, rows: int, positions: int) -> None:
        """Make room; what is held stays."""
        held_rows, _, held, _ = self.keys.shape
        if rows <= held_rows and positions <= held:
            return
        rows = max(rows, 2 * held_rows) if rows > held_rows else held_rows
        positions = max(-(-positions // _BLOCK) * _BLOCK, 3 * held // 2) if positions > held else held
        self.keys = _grown(self.keys, rows, positions)
        self.values = _grown(self.values, rows, positions)

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        where = self.where
        self.reserve(where.rows, where.needed)
        place = where.index[:, None]
        self.keys[place, :, where.positions] = key_states.transpose(1, 2)
        self.values[place, :, where.positions] = value_states.transpose(1, 2)
        if where.first:
            count = len(where.index)
            return self.keys[:count, :, : where.end], self.values[:count, :, : where.end]
        return (
            self.keys[:, :, : where.end].index_select(0, where.index),
            self.values[:, :, : where.end].index_select(0, where.index),
        )

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.where.end, 0

    def get_seq_length(self) -> int:
        return self.where.end

    def get_max_length(self) -> int:
        return -1


def _grown(held: Tensor, rows: int, positions: int) -> Tensor:
    # Zeros: what no mask shows is multiplied by 0, and leftovers of fresh memory may be no numbers.
    grown = held.new_zeros((rows, held.shape[1], positions, held.shape[3]))
    grown[: held.shape[0], :, : held.shape[2]] = held
    return grown
