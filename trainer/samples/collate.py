"""Rows as tensors: packed behind one another, or rows of about one length below each other, padded on the right.

Packed rows need a model that keeps them apart (`trainer.policy.packing`). Padding on the right needs nothing: a causal
model never looks there, so that it changes nothing on its left and needs no attention mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainer.samples.batch import TrainingRow


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """Rows of which N tokens are trained: B rows padded to L tokens, or all packed into one line of L.

    Attributes:
        input_ids: [B, L]; packed: [1, L].
        packed: whether the rows, each as long as it is, follow one another in one line.
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
    packed: bool = False

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


def packs(rows: Sequence[TrainingRow], token_budget: int) -> list[list[TrainingRow]]:
    """Rows into micro-batches of at most `token_budget` tokens, or of one longer row: the longest first, each to the
    first that has room for it."""
    found: list[list[TrainingRow]] = []
    room: list[int] = []
    for row in sorted(rows, key=len, reverse=True):
        place = next((number for number, left in enumerate(room) if len(row) <= left), None)
        if place is None:
            found.append([row])
            room.append(token_budget - len(row))
        else:
            found[place].append(row)
            room[place] -= len(row)
    return found


def share(rows: Sequence[TrainingRow], rank: int, world: int) -> list[TrainingRow]:
    """One rank's rows: the longest first to whoever has least, so that ranks finish together."""
    loads, own = [0] * world, []
    for row in sorted(rows, key=len, reverse=True):
        lightest = loads.index(min(loads))
        loads[lightest] += len(row)
        if lightest == rank:
            own.append(row)
    return own


def collate(rows: Sequence[TrainingRow], *, pad_id: int = 0, packed: bool = False) -> MicroBatch:
    """The tensors of one micro-batch."""
    longest = max(map(len, rows))
    lengths = list(map(len, rows)) if packed else [longest] * len(rows)
    starts = [0, *accumulate(lengths)]
    ids = np.full(starts[-1], pad_id, dtype=np.int64)
    for start, each in zip(starts, rows, strict=False):
        ids[start : start + len(each)] = each.token_ids
    places = [each.places for each in rows]
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
        input_ids=torch.from_numpy(ids.reshape(1 if packed else len(rows), -1)),
        source=torch.from_numpy(
            np.concatenate([start + place - 1 for start, place in zip(starts, places, strict=False)])
        ),
        target=gathered("token_ids").long(),
        behaviour=gathered("behaviour"),
        advantage=gathered("advantage"),
        weight=repeated([each.weight for each in rows], torch.float32),
        temperature=repeated([each.temperature for each in rows], torch.float32),
        row=row,
        chunk=chunk,
        positive=repeated([each.positive for each in rows], torch.bool),
        rows=tuple(rows),
        packed=packed,
    )
