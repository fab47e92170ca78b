"""What an export kept, masked and dropped, and why: the sums are the number of attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.export.attempts import Attempts
from harness.export.rows import AttemptRows
from harness.export.tokens import Conversation

_MAX_FINDINGS = 100


@dataclass(slots=True)
class ExportStats:
    """Counted while exporting.

    Attributes:
        attempts: all that there are or were meant to be; `kept` have a row to train on, `masked` have rows that are
            not to be trained on, `dropped` have no row: by the reason.
        superseded: executions that a retry replaced; they are no attempts.
        rows, trainable_rows: of all attempts. retokenised_rows: those whose ids were not sampled.
        groups: "complete", "incomplete" (an attempt is missing or masked), "without_signal" (two rewards or more, all
            the same), "single" (of one attempt).
        tokens: by kind of span. calls: what became of the calls. faults: calls by what is wrong with them.
        missing_turns: calls whose tokens no file holds.
        not_plain: rows sampled with top_p or top_k, whose log-probabilities may be of another distribution.
    """

    attempts: int = 0
    kept: int = 0
    masked: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    superseded: int = 0
    rows: int = 0
    trainable_rows: int = 0
    retokenised_rows: int = 0
    groups: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    missing_turns: int = 0
    not_plain: int = 0
    findings: list[str] = field(default_factory=list)
    n_findings: int = 0

    def start(self, attempts: Attempts) -> None:
        """Take what is known before the first row."""
        self.attempts = attempts.total
        self.dropped += attempts.unreadable
        self.superseded = attempts.superseded
        self.find(attempts.findings)

    def add(self, found: AttemptRows, conversation: Conversation) -> None:
        """Take one attempt's rows."""
        if found.masked_because is None:
            self.kept += 1
        else:
            self.masked[found.masked_because] += 1
        self.rows += len(found.rows)
        self.trainable_rows += sum(row.trainable for row in found.rows)
        self.retokenised_rows += sum(row.ids_from != "sampled" for row in found.rows if len(row.token_ids))
        self.not_plain += sum(_is_filtered(row.top_p, row.top_k) for row in found.rows if row.trainable)
        self.tokens += found.tokens
        self.calls += conversation.counts
        self.faults += conversation.faults

    def add_group(self, size: int, rewards: Sequence[float | None]) -> None:
        """Take one group: the size that it is meant to have, and its trainable attempts' rewards."""
        known = [reward for reward in rewards if reward is not None]
        self.groups["complete" if len(known) == size else "incomplete"] += 1
        if size == 1:
            self.groups["single"] += 1
        elif len(known) > 1 and len(set(known)) == 1:
            self.groups["without_signal"] += 1

    def find(self, findings: Sequence[str]) -> None:
        """Keep the first findings, and count all."""
        self.n_findings += len(findings)
        self.findings += findings[: max(0, _MAX_FINDINGS - len(self.findings))]

    def document(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "attempts": self.attempts,
            "kept": self.kept,
            "masked": dict(self.masked),
            "dropped": dict(self.dropped),
            "superseded": self.superseded,
            "rows": self.rows,
            "trainable_rows": self.trainable_rows,
            "retokenised_rows": self.retokenised_rows,
            "groups": dict(self.groups),
            "tokens": dict(self.tokens),
            "calls": dict(self.calls),
            "faults": dict(self.faults),
            "missing_turns": self.missing_turns,
            "not_plain": self.not_plain,
            "findings": self.findings,
            "n_findings": self.n_findings,
        }

    def why_nothing(self) -> str:
        """Why there is nothing to train on, and what to do about it, in one line."""
        reasons = self.masked + self.dropped
        if reasons and set(reasons) <= {"text_only", "no_token_ids"}:
            return (
                f"{_attempts(self.attempts)} text only: the endpoint gave no token ids (capture = true asks for them). "
                "Use --to-sft, or --retokenize TOKENIZER"
            )
        listed = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common(5))
        return f"no attempt of {self.attempts} can be trained on: {listed}"


def _is_filtered(top_p: float | None, top_k: int | None) -> bool:
    return (top_p is not None and top_p < 1) or (top_k is not None and top_k > 0)


def _attempts(number: int) -> str:
    return "the only attempt is" if number == 1 else f"all {number} attempts are"
