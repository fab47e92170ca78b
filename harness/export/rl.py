"""Jobs in, rows out: one attempt at a time, so that memory does not grow with the number of attempts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from harness import __version__
from harness.errors import UsageError
from harness.export.arrow import require_pyarrow
from harness.export.attempts import AttemptRef, Attempts, find_attempts, in_groups, open_jobs, read_attempt
from harness.export.calls import RecordedCalls
from harness.export.folder import export_folder, write_manifest
from harness.export.retokenize import Tokenizer, fingerprint_of, retokenised_calls
from harness.export.rows import RETOKENISED, SAMPLED_IDS, AttemptRows, Group, lost_row, rows_of
from harness.export.schema import SCHEMA_VERSION
from harness.export.shards import JsonShards, NoSink, ParquetShards, RowSink
from harness.export.stats import ExportStats
from harness.export.tokens import Conversation, branch
from harness.export.turns import turns_of

Format = Literal["parquet", "jsonl"]


def export_rl(
    folders: Sequence[Path],
    target: Path,
    *,
    file_format: Format = "parquet",
    realign_below: int = 0,
    tokenizer: Tokenizer | None = None,
) -> ExportStats:
    """Write the rows of these jobs into the folder `target`, which then is a whole export.

    Raises UsageError for folders that are no jobs, and when nothing could be trained on; then nothing is written.
    """
    if file_format == "parquet":
        require_pyarrow()
    jobs = open_jobs(folders)
    attempts = find_attempts(jobs)
    with export_folder(target) as draft:
        sink = ParquetShards(draft) if file_format == "parquet" else JsonShards(draft)
        stats = _write_rows(attempts, sink, realign_below, tokenizer)
        names = sink.close()
        if not stats.trainable_rows:
            raise UsageError(stats.why_nothing())
        document: dict[str, Any] = {
            "kind": "rl",
            "schema_version": SCHEMA_VERSION,
            "harness_version": __version__,
            "jobs": [str(job.paths.root.resolve()) for job in jobs],
            "options": {
                "format": file_format,
                "realign_below": realign_below,
                "retokenize": None if tokenizer is None else tokenizer.name_or_path,
                "tokenizer": None if tokenizer is None else fingerprint_of(tokenizer),
            },
            "files": [{"name": name, "bytes": (draft / name).stat().st_size} for name in names],
            "stats": stats.document(),
        }
        write_manifest(draft, document)
    return stats


def count_rl(folders: Sequence[Path], *, realign_below: int = 0, tokenizer: Tokenizer | None = None) -> ExportStats:
    """What `export_rl` would write, counted and not written. Raises UsageError for folders that are no jobs."""
    return _write_rows(find_attempts(open_jobs(folders)), NoSink(), realign_below, tokenizer)


def _write_rows(attempts: Attempts, sink: RowSink, realign_below: int, tokenizer: Tokenizer | None) -> ExportStats:
    stats = ExportStats()
    stats.start(attempts)
    for group_id, refs in in_groups(attempts.refs):
        group = Group(id=group_id, size=attempts.group_size(group_id), missing=attempts.group_missing(group_id))
        rewards: list[float | None] = []
        for ref in refs:
            found = attempt_rows(ref, group, stats, realign_below, tokenizer)
            for row in found.rows:
                sink.add(row)
            rewards.append(found.rows[0].reward if found.masked_because is None else None)
        stats.add_group(group.size, rewards)
    return stats


def attempt_rows(
    ref: AttemptRef, group: Group, stats: ExportStats, realign_below: int = 0, tokenizer: Tokenizer | None = None
) -> AttemptRows:
    """The rows of one attempt, counted in `stats`; a single masked one where its record cannot be read."""
    result = read_attempt(ref)
    if result is None:
        found, conversation = lost_row(ref, group), Conversation()
    else:
        calls, ids_from = RecordedCalls(ref.paths, result), SAMPLED_IDS
        conversation = branch(calls, realign_below=realign_below)
        stats.missing_turns += calls.missing
        stats.find(calls.findings)
        if tokenizer is not None and not conversation.branches:
            conversation = branch(retokenised_calls(ref.paths, result, tokenizer), with_logprobs=False)
            ids_from = RETOKENISED
        found = rows_of(ref, result, group, conversation, ids_from=ids_from, turns=turns_of(ref.paths, result))
    stats.add(found, conversation)
    return found
