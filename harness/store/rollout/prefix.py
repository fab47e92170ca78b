"""How much of two token sequences is the same from the start."""

from __future__ import annotations

from array import array


def shared_prefix(one: array[int], other: array[int]) -> int:
    """The length of the longest common prefix, found by comparing memory: logarithmic in calls, linear in bytes."""
    low, high, width = 0, min(len(one), len(other)), one.itemsize
    left, right = _head(one, high), _head(other, high)
    if left == right:
        return high
    while low + 1 < high:  # the first `low` are the same, the first `high` are not
        middle = (low + high) // 2
        if left[low * width : middle * width] == right[low * width : middle * width]:
            low = middle
        else:
            high = middle
    return low


def _head(ids: array[int], count: int) -> bytes:
    """The memory of the first ids, copied: bytes are compared as a block, views element by element."""
    return memoryview(ids).cast("B")[: count * ids.itemsize].tobytes()
