"""What a trial becomes: a tree of spans, the same for every exporter. Its ids follow from the record alone."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What a span is the time of."""

    TRIAL = "trial"
    SETUP = "setup"
    AGENT = "agent"
    MODEL = "model"
    TOOL = "tool"
    VERIFICATION = "verification"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What model calls cost; `input` includes `cached`. None is unknown."""

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One timed part of a trial.

    Attributes:
        key: its name within the trial, e.g. "agent/3/call-1"; the root's is empty. parent: its parent's key.
        inputs, outputs: content, which an exporter may be told to hide.
        error: the stable name of what went wrong, e.g. "agent_timeout". error_text: content.
        facts: what is not content: names, numbers, exit codes.
    """

    key: str
    parent: str | None
    kind: Kind
    name: str
    start: datetime
    end: datetime
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    error_text: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    tokens: Tokens | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One judgement of a trial: a number, or a word."""

    key: str
    score: float | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A trial: its spans, parents before children, and its marks. `seed` is what all ids are derived from."""

    seed: str
    task_name: str
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]

    @property
    def root(self) -> Span:
        """The span of the whole trial."""
        return self.spans[0]

    def id_of(self, key: str) -> uuid.UUID:
        """The id of a span, or of a mark ("mark:" and its key): the same whenever and by whomever it is sent."""
        return time_ordered_uuid(self.root.start, f"{self.seed}/{key}")


def time_ordered_uuid(at: datetime, seed: str) -> uuid.UUID:
    """A UUID of version 7 whose random part is a digest of `seed`."""
    millis = int(at.timestamp() * 1000) & (1 << 48) - 1
    noise = int.from_bytes(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()[:10], "big")
    value = millis << 80 | noise
    value = value & ~(0xF << 76) | 7 << 76
    return uuid.UUID(int=value & ~(0x3 << 62) | 2 << 62)
