"""The groups of a lease as rows, read from the records that their attempts left: the same rows whenever it is asked."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from math import nan

from harness import __version__
from harness.export.attempts import AttemptRef, Job
from harness.export.rl import attempt_rows
from harness.export.rows import Group
from harness.export.schema import RLSample
from harness.export.stats import ExportStats
from harness.store.layout import JobPaths
from trainer.online.parts import Collected

NOT_PICKED = "not_picked"
"""An attempt that counts in its group's mean and is not trained on (Reinforce-Ada)."""


def group_rows(paths: JobPaths, group: Collected) -> list[RLSample]:
    """All rows of a group's attempts."""
    job = Job(name=paths.root.name, paths=paths, planned=None, per_task=None, harness_version=__version__)
    about = Group(id=f"{group.task}/g{group.number}", size=group.size, missing=group.size - len(group.attempts))
    return [
        _left_out(row) if attempt.trial in group.left_out else row
        for attempt in group.attempts
        for row in attempt_rows(
            AttemptRef(job, attempt.trial, about.id, (job.name, group.task, attempt.number), 0), about, ExportStats()
        ).rows
    ]


def lease_rows(paths: JobPaths, groups: tuple[Collected, ...]) -> Iterator[list[RLSample]]:
    """Group by group, so that one is in memory at a time."""
    return (group_rows(paths, group) for group in groups)


def newest_only(row: RLSample) -> RLSample:
    """The row with only those tokens in the loss that the newest of its versions sampled."""
    known = [version for version in row.policy_versions if version.isdecimal()]
    if len(known) < 2 or len(known) < len(row.policy_versions):
        return row
    newest = row.policy_versions.index(max(known, key=int))
    kept = [bool(mask) and index == newest for mask, index in zip(row.loss_mask, row.policy_index, strict=True)]
    return replace(
        row,
        loss_mask=array("b", kept),
        logprobs=array("f", [value if keep else nan for value, keep in zip(row.logprobs, kept, strict=True)]),
    )


def _left_out(row: RLSample) -> RLSample:
    length = len(row.token_ids)
    return replace(
        row,
        trainable=False,
        untrainable_reason=NOT_PICKED,
        loss_mask=array("b", bytes(length)),
        logprobs=array("f", [nan]) * length,
    )
