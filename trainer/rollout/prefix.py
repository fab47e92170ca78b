"""Keys and values of sequences that have ended, for those that begin alike: the next turn, the next attempt.

Least recently used ones go first when the memory is full. What begins another stored sequence is not stored twice.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict

from trainer.policy.rows import Stored

_WIDTH = array("i").itemsize


def shared(left: array[int] | bytes, right: array[int] | bytes) -> int:
    """How many tokens two sequences begin with in common."""
    one, other = bytes(left), bytes(right)
    low, high = 0, min(len(one), len(other)) // _WIDTH
    while low < high:
        middle = (low + high + 1) // 2
        if one[low * _WIDTH : middle * _WIDTH] == other[low * _WIDTH : middle * _WIDTH]:
            low = middle
        else:
            high = middle - 1
    return low


class Prefixes:
    """See the module. `room` is in bytes; 0 stores nothing."""

    def __init__(self, room: int, bytes_per_token: int) -> None:
        self._room = room // max(bytes_per_token, 1)
        self._held: OrderedDict[bytes, Stored] = OrderedDict()
        self._tokens = 0

    def find(self, tokens: array[int]) -> tuple[Stored | None, int]:
        """What shares most with `tokens`, and how many tokens that is."""
        wanted, best, most = tokens.tobytes(), None, 0
        for key in self._held:
            # Only what shares one token more than the best so far is worth a closer look.
            if key[: (most + 1) * _WIDTH] == wanted[: (most + 1) * _WIDTH] and (found := shared(key, wanted)) > most:
                best, most = key, found
        if best is None:
            return None, 0
        self._held.move_to_end(best)
        return self._held[best], most

    def wants(self, tokens: array[int]) -> bool:
        """Whether it would be of use to have these, too."""
        key = tokens.tobytes()
        return 0 < len(tokens) <= self._room and not any(each.startswith(key) for each in self._held)

    def put(self, tokens: array[int], stored: Stored) -> None:
        """Take a sequence in."""
        key = tokens.tobytes()
        for each in [each for each in self._held if key.startswith(each)]:
            self._drop(each)
        self._held[key] = stored
        self._tokens += len(tokens)
        while self._tokens > self._room:
            self._drop(next(iter(self._held)))

    def _drop(self, key: bytes) -> None:
        del self._held[key]
        self._tokens -= len(key) // _WIDTH
