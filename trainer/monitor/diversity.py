"""How differently the attempts of one task go about it, measured on their sequences of tool calls, never on words.

A sequence is what an attempt called, in order. Rewording messages changes nothing here; doing things in another order
does. Everything is a plain number; None where there is too little to tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import combinations

import numpy as np

Calls = Sequence[Hashable]
Similarity = Callable[[Calls, Calls], float]


def distinct(sequences: Sequence[Calls], n: int) -> float | None:
    """Different n-grams over all n-grams."""
    found = [gram for calls in sequences for gram in _grams(calls, n)]
    return len(set(found)) / len(found) if found else None


def unique_share(sequences: Sequence[Calls]) -> float | None:
    """Different sequences over all of them (Div-Equ of arXiv 2505.23433)."""
    return len({tuple(calls) for calls in sequences}) / len(sequences) if sequences else None


def self_bleu(sequences: Sequence[Calls], n: int = 4) -> float | None:
    """How much of each sequence's n-grams (1 to n, clipped, geometric mean, brevity) the others hold; 1 is alike."""
    if len(sequences) < 2:
        return None
    others = [[each for place, each in enumerate(sequences) if place != own] for own in range(len(sequences))]
    return math.fsum(_bleu(calls, rest, n) for calls, rest in zip(sequences, others, strict=True)) / len(sequences)


def edit_distance(one: Calls, other: Calls) -> int:
    """Insertions, deletions and replacements that make one sequence the other."""
    previous = list(range(len(other) + 1))
    for row, left in enumerate(one, 1):
        current = [row]
        for column, right in enumerate(other, 1):
            current.append(min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (left != right)))
        previous = current
    return previous[-1]


def normalised_edit(one: Calls, other: Calls) -> float:
    """Edit distance over the longer length; 0 is the same, 1 has nothing in common."""
    longer = max(len(one), len(other))
    return edit_distance(one, other) / longer if longer else 0.0


def mean_edit(sequences: Sequence[Calls]) -> float | None:
    """The mean normalised edit distance over all pairs."""
    apart = _pairwise(sequences, normalised_edit)
    pairs = len(sequences) * (len(sequences) - 1) / 2
    return math.fsum(apart[a][b] for a, b in combinations(range(len(sequences)), 2)) / pairs if pairs else None


def same(one: Calls, other: Calls) -> float:
    """1 for equal sequences, else 0."""
    return float(tuple(one) == tuple(other))


def alike(one: Calls, other: Calls) -> float:
    """1 minus the normalised edit distance."""
    return 1 - normalised_edit(one, other)


def vendi(sequences: Sequence[Calls], similarity: Similarity = same) -> float | None:
    """The effective number of different strategies (arXiv 2210.02410): exp of the entropy of K / n's eigenvalues."""
    if not sequences:
        return None
    kernel = np.asarray(_pairwise(sequences, similarity)) / len(sequences)
    eigenvalues = np.linalg.eigvalsh(kernel)
    positive = eigenvalues[eigenvalues > 1e-12]
    return float(np.exp(-(positive * np.log(positive)).sum()))


def potential(pass_1: Sequence[float], pass_k: Sequence[float]) -> float | None:
    """Potential@k of arXiv 2505.23433: pass@k where one attempt is not enough, sum(P_k (1 - P_1)) / sum(1 - P_1)."""
    room = math.fsum(1 - one for one in pass_1)
    return math.fsum(k * (1 - one) for one, k in zip(pass_1, pass_k, strict=True)) / room if room else None


def diversity_numbers(groups: Iterable[Sequence[Calls]]) -> dict[str, float | None]:
    """Of a step: each measure within a task, averaged over the tasks with at least two known sequences."""
    told = [group for group in groups if len(group) >= 2]
    measures: dict[str, Callable[[Sequence[Calls]], float | None]] = {
        "distinct_1": lambda group: distinct(group, 1),
        "distinct_2": lambda group: distinct(group, 2),
        "unique_sequences": unique_share,
        "self_bleu": self_bleu,
        "edit_distance": mean_edit,
        "strategies": vendi,
    }
    return {name: _mean([of(group) for group in told]) for name, of in measures.items()}


def _grams(calls: Calls, n: int) -> list[tuple[Hashable, ...]]:
    return [tuple(calls[start : start + n]) for start in range(len(calls) - n + 1)]


def _bleu(calls: Calls, others: Sequence[Calls], n: int) -> float:
    orders = range(1, min(n, len(calls)) + 1)
    if not orders:
        return float(any(not len(other) for other in others))
    precisions = [_clipped(calls, others, order) for order in orders]
    if not all(precisions):
        return 0.0
    nearest = min((abs(len(other) - len(calls)), len(other)) for other in others)[1]
    brevity = min(1.0, math.exp(1 - nearest / len(calls)))
    return brevity * math.exp(math.fsum(map(math.log, precisions)) / len(precisions))


def _clipped(calls: Calls, others: Sequence[Calls], n: int) -> float:
    own = _grams(calls, n)
    held = [_grams(other, n) for other in others]
    found = sum(min(own.count(gram), max(grams.count(gram) for grams in held)) for gram in set(own))
    return found / len(own)


def _pairwise(sequences: Sequence[Calls], of: Similarity) -> list[list[float]]:
    """All pairs; each pair of different sequences is computed once."""
    kinds = list(dict.fromkeys(map(tuple, sequences)))
    known = {(a, b): of(a, b) for a, b in combinations(kinds, 2)}
    known |= {(b, a): value for (a, b), value in known.items()} | {(a, a): of(a, a) for a in kinds}
    own = [tuple(calls) for calls in sequences]
    return [[known[a, b] for b in own] for a in own]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
