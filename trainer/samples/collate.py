"""Rows as tensors: micro-batches of rows of about one length, padded on the right.

A causal model never looks to the right, so padding there changes nothing on its left and needs no attention mask. On a
CPU that is faster than packing rows behind each other with a block-diagonal mask, for which its kernels fall back to
full matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainer.samples.batch import TrainingRow


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """B rows of at most L tokens, of which N are trained.

    Attributes:
        input_ids: [B, L].
        source: [N], the position in [B * L] whose output predicts each trained token.
        target: [N], the token.
        behaviour, advantage, weight, temperature: [N].
        row: [N], from 0 within the micro-batch. chunk: [N], unique over rows.
        positive: [N].
    """

    input_ids: Tensor
    source: Tensor
    target: Tensor
    behaviour: Tensor
    advantage: Tensor
    weight: Tensor
    temperature: Tensor
    row: Tensor
    chunk: Tensor
    positive: Tensor
    rows: tuple[TrainingRow, ...]

    @property
    def real_tokens(self) -> int:
        """Tokens without padding."""
        return sum(map(len, self.rows))

    def to(self, device: torch.device) -> MicroBatch:
        """The same on another device."""
        if device.type == "cpu":
            return self
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        moved: dict[str, Any] = {name: each.to(device) for name, each in values.items() if isinstance(each, Tensor)}
        return replace(self, **moved)


def buckets(rows: Sequence[TrainingRow], token_budget: int) -> list[list[TrainingRow]]:
    """Rows by length into micro-batches of at most `token_budget` tokens, padding included; at least one row each.

    A micro-batch ends early where the next row would be padded by more than a quarter, once it is large enough
    to be worth its own pass.
    """
    found: list[list[TrainingRow]] = []
    for row in sorted(rows, key=len, reverse=True):
        if found and _takes(found[-1], len(row), token_budget):
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _takes(bucket: Sequence[TrainingRow], length: int, token_budget: int) -> bool:
    longest = len(bucket[0])
    if longest * (len(bucket) + 1) > token_budget:
        return False
    return length >= 0.75 * longest or longest * len(bucket) < token_budget / 8


def share(rows: Sequence[TrainingRow], rank: int, world: int) -> list[TrainingRow]:
    """One rank's rows: the longest first to whoever has least, so that ranks finish together."""
    loads, own = [0] * world, []
    for row in sorted(rows, key=len, reverse=True):
        lightest = loads.index(min(loads))
        loads[lightest] += len(row)
        if lightest == rank:
            own.append(row)
    return own


def collate(rows: Sequence[TrainingRow], *, pad_id: int = 0) -> MicroBatch:
    """The tensors of one micro-batch. The first token of a row is predicted by nothing, and is never trained."""
    length = max(map(len, rows))
    ids = np.full((len(rows), length), pad_id, dtype=np.int64)
    places = []
    for number, each in enumerate(rows):
        ids[number, : len(each)] = each.token_ids
        places.append(np.flatnonzero(each.mask[1:]) + 1)
    sizes = [len(place) for place in places]

    def gathered(name: str) -> Tensor:
        return torch.from_numpy(
            np.concatenate([getattr(each, name)[place] for each, place in zip(rows, places, strict=True)])
        )

    def repeated(values: Sequence[float | bool | int], dtype: torch.dtype) -> Tensor:
        return torch.repeat_interleave(torch.tensor(values, dtype=dtype), torch.tensor(sizes))

    row = repeated(range(len(rows)), torch.long)
    chunk = gathered("chunk").long()
    # Numbered without gaps over the micro-batch: a pair (row, chunk) is one chunk.
    _, chunk = torch.unique(row * (int(chunk.max()) + 2 if len(chunk) else 1) + chunk + 1, return_inverse=True)
    return MicroBatch(
        input_ids=torch.from_numpy(ids),
        source=torch.from_numpy(np.concatenate([number * length + place - 1 for number, place in enumerate(places)])),
        target=gathered("token_ids").long(),
        behaviour=gathered("behaviour"),
        advantage=gathered("advantage"),
        weight=repeated([each.weight for each in rows], torch.float32),
        temperature=repeated([each.temperature for each in rows], torch.float32),
        row=row,
        chunk=chunk,
        positive=repeated([each.positive for each in rows], torch.bool),
        rows=tuple(rows),
    )
