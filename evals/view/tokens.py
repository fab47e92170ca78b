"""What was sampled in a trial, token by token: log-probability, how surprising that is, and whether the loss sees it.

The mask is the export's own (`harness.export`): what is shown here is what a row of `harness export --to-rl` holds.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.export.calls import RecordedCalls
from harness.export.columns import Columns, columns_of
from harness.export.rows import reward_of
from harness.export.tokens import branch
from harness.records import TrialResult
from harness.store.layout import TrialPaths

if TYPE_CHECKING:
    from harness.export.retokenize import Tokenizer

LEVELS = (0.5, 0.1, 0.01, 0.001)
"""A token is more surprising than the level if it was less probable than this."""

Step = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `level`: 0, expected, to 4, very surprising; None where no log-probability is known."""

    place: int
    id: int
    text: str
    logprob: float | None
    level: int | None
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What one call sampled, in short. `kind` is what the export makes of it, e.g. "sampled" or "masked"."""

    row: int
    start: int
    tokens: tuple[Token, ...]
    count: int
    mean: float | None
    lowest: float | None
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A trial's tokens.

    Attributes:
        rows: what the export would write, a row for each branch.
        why: why nothing of it is trained on; None where something may be.
        logprobs: of each row, for every token that was sampled, trained on or not.
        findings: what could not be read, or may not be trained on.
    """

    rows: tuple[Columns, ...]
    sessions: tuple[str, ...]
    why: str | None
    logprobs: tuple[array[float], ...]
    findings: tuple[str, ...]

    def by_step(self, most: int, tokenizer: Tokenizer | None) -> dict[Step, Sampled]:
        """The calls by session and step: the row in which each is trained, or else the first that holds it."""
        found: dict[Step, Sampled] = {}
        for number, columns in enumerate(self.rows):
            for span in columns.spans:
                if span.call_id is None:
                    continue
                key = (str(span.session), span.step_id)
                if key not in found or span.kind != "trained_elsewhere":
                    found[key] = self._sampled(number, span.start, span.end, span.kind, most, tokenizer)
        return found

    def _sampled(self, row: int, start: int, end: int, kind: str, most: int, tokenizer: Tokenizer | None) -> Sampled:
        known = [value for value in self.logprobs[row][start:end] if math.isfinite(value)]
        return Sampled(
            row=row,
            start=start,
            tokens=tuple(self.tokens(row, start, min(end, start + most), tokenizer)),
            count=end - start,
            mean=math.fsum(known) / len(known) if known else None,
            lowest=min(known, default=None),
            kind=kind,
        )

    def tokens(self, row: int, start: int, end: int, tokenizer: Tokenizer | None) -> Iterator[Token]:
        """The tokens [start, end) of a row."""
        columns, logprobs = self.rows[row], self.logprobs[row]
        for span in columns.spans:
            for place in range(max(start, span.start), min(end, span.end)):
                value = logprobs[place]
                logprob = value if math.isfinite(value) else None
                token = columns.token_ids[place]
                text = str(token) if tokenizer is None else _text(tokenizer, token)
                yield Token(place, token, text, logprob, level_of(logprob), span.kind)


def level_of(logprob: float | None) -> int | None:
    """How surprising a token of this log-probability is."""
    return None if logprob is None else sum(logprob < math.log(level) for level in LEVELS)


def _text(tokenizer: Tokenizer, token: int) -> str:
    try:
        return tokenizer.decode([token])
    except Exception:  # noqa: BLE001 - an id that this tokenizer does not have: whatever its library raises
        return f"[{token}]"


def read_rows(folder: Path, result: TrialResult) -> Rows:
    """The rows of a trial; none where its tokens were not recorded."""
    calls = RecordedCalls(TrialPaths(folder), result)
    conversation = branch(calls)
    _, why = reward_of(result)
    rows, logprobs = [], []
    for each in conversation.branches:
        rows.append(columns_of(each, trainable=why is None, policy_version=result.policy_version))
        values = array("f", [math.nan]) * len(each.tokens)
        for segment in each.segments:
            told = segment.call.logprobs if segment.call is not None else None
            if told is not None and len(told) >= segment.end - segment.start:
                values[segment.start : segment.end] = array("f", told[: segment.end - segment.start])
        logprobs.append(values)
    faults = [f"{count} calls: {name.replace('_', ' ')}" for name, count in conversation.faults.items()]
    return Rows(
        rows=tuple(rows),
        sessions=tuple(each.session for each in conversation.branches),
        why=why,
        logprobs=tuple(logprobs),
        findings=(*_inside(calls.findings, folder), *faults),
    )


def _inside(findings: Sequence[str], folder: Path) -> list[str]:
    return [each.replace(f"{folder}/", "") for each in findings]
