"""What a row must satisfy, at write and at load: equal lengths, and a log-probability for exactly what is trained."""

from __future__ import annotations

import math
from array import array

from harness.export.arrow import TOKEN_COLUMNS
from harness.export.faults import ROUNDING
from harness.export.schema import RLSample
from harness.export.tokens import SAMPLED

_RETOKENISED = "retokenised"


def problems_of(row: RLSample) -> list[str]:
    """What is wrong with a row; empty if nothing is."""
    lengths = {name: len(getattr(row, name)) for name in TOKEN_COLUMNS}
    if len(set(lengths.values())) > 1:
        return [f"columns differ in length: {', '.join(f'{name} {size}' for name, size in lengths.items())}"]
    found = [*_mask(row), *_spans(row)]
    if row.token_ids and min(row.token_ids) < 0:
        found.append("a negative token id")
    if not set(row.policy_index) <= set(range(-1, len(row.policy_versions))):
        found.append("policy_index points at no policy version")
    if row.reward is not None and not math.isfinite(row.reward):
        found.append("the reward is not finite")
    if row.trainable and row.reward is None:
        found.append("trainable without a reward")
    if row.trainable == (row.untrainable_reason is not None):
        found.append("untrainable_reason is given exactly where trainable is false")
    if not 0 <= row.branch < row.n_branches or not math.isclose(row.rollout_weight * row.n_branches, 1, rel_tol=1e-5):
        found.append("branch, n_branches and rollout_weight contradict each other")
    return found


def _mask(row: RLSample) -> list[str]:
    mask = array("b", row.loss_mask).tobytes()
    trained = mask.count(1)
    if trained + mask.count(0) != len(mask):
        return ["loss_mask holds something else than 0 and 1"]
    found = []
    if bool(trained) != row.trainable:
        found.append("a row is trainable if, and only if, loss_mask has a 1")
    known = 0
    for span in row.spans:
        if span.kind == SAMPLED:
            piece = row.logprobs[span.start : span.end]
            known += sum(map(math.isfinite, piece))
            if piece and max(piece) > ROUNDING:
                found.append(f"a log-probability above 0 at [{span.start}, {span.end})")
    expected = 0 if row.ids_from == _RETOKENISED else trained
    if known != expected or sum(map(math.isnan, row.logprobs)) != len(row.logprobs) - expected:
        found.append("log-probabilities are finite exactly where loss_mask is 1")
    return found


def _spans(row: RLSample) -> list[str]:
    end, mask, chunks = 0, array("b"), array("i")
    for span in row.spans:
        if span.start != end or span.end <= span.start:
            return [f"spans do not follow one another at {span.start}"]
        size, end = span.end - span.start, span.end
        mask += array("b", [span.kind == SAMPLED]) * size
        chunks += array("i", [span.chunk]) * size
    if end != len(row.token_ids):
        return [f"spans end at {end}, the tokens at {len(row.token_ids)}"]
    same = mask == array("b", row.loss_mask) and chunks == array("i", row.chunk_ids)
    return [] if same else ["spans contradict loss_mask or chunk_ids"]
