"""Which of several servers a request goes to: by weight, always the same one for the same trial, among the healthy.

The same trial at the same server finds its conversation in the server's prefix cache. When a server fails, only its own
trials move, and they come back when it is well again (rendezvous hashing).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.llm.openai_chat import Endpoint


@dataclass(slots=True)
class Server:
    """One endpoint and how it fares. `weight` is its share of the trials, compared with the others'."""

    endpoint: Endpoint
    weight: float = 1.0
    healthy: bool = True


def order(servers: Sequence[Server], affinity: str) -> list[Server]:
    """The servers in the order in which a trial asks them: the healthy ones first, each group by the trial's lot."""
    return sorted(servers, key=lambda server: (not server.healthy, -_lot(server, affinity)))


def _lot(server: Server, affinity: str) -> float:
    """The highest of these is each server's with a chance in proportion to its weight."""
    name = f"{server.endpoint.base_url}|{server.endpoint.model}|{affinity}"
    number = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
    return -server.weight / math.log((number + 0.5) / 2.0**64)
