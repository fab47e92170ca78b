"""Writes rows into shards, Parquet or JSON lines, with a bounded number of tokens in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Protocol

from harness import strict_json
from harness.export.arrow import TOKEN_COLUMNS, batch_of
from harness.export.check import problems_of
from harness.export.schema import COLUMNS, RLSample, Span, arrow_schema

BATCH_TOKENS = 1 << 20
BATCH_ROWS = 4096
SHARD_TOKENS = 1 << 26


class RowSink(Protocol):
    """Where rows go."""

    def add(self, row: RLSample) -> None:
        """Take one row."""

    def close(self) -> list[str]:
        """Write what is left; the names of the files."""


class NoSink:
    """For counting only."""

    def add(self, row: RLSample) -> None:
        """Let the row go."""

    def close(self) -> list[str]:
        """There are no files."""
        return []


class ParquetShards:
    """`part-00000.parquet` and so on. Raises ValueError for a row that contradicts itself: a bug, never data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: list[str] = []
        self._writer: Any = None
        self._rows: list[RLSample] = []
        self._batched = self._in_shard = 0

    def add(self, row: RLSample) -> None:
        """Take one row. What has gathered is written when it is enough, and before a group rather than within one:
        who reads the export by groups then needs one batch for each."""
        require_sound(row)
        enough = self._batched >= BATCH_TOKENS or len(self._rows) >= BATCH_ROWS
        begins = bool(self._rows) and row.group_id != self._rows[-1].group_id
        if (enough and begins) or self._batched >= 2 * BATCH_TOKENS:
            self._write()
        self._rows.append(row)
        self._batched += len(row.token_ids)

    def close(self) -> list[str]:
        """Write what is left; the names of the files."""
        if self._rows or not self._names:
            self._write()
        self._end_shard()
        return self._names

    def _write(self) -> None:
        from pyarrow import parquet

        schema = arrow_schema()
        if self._writer is None:
            self._names.append(f"part-{len(self._names):05}.parquet")
            self._writer = parquet.ParquetWriter(
                self._folder / self._names[-1],
                schema,
                compression="zstd",
                use_dictionary=[name for name in COLUMNS if name not in TOKEN_COLUMNS and name != "spans"],
                write_statistics=False,
            )
        self._writer.write_batch(batch_of(self._rows))
        self._in_shard += self._batched
        self._rows, self._batched = [], 0
        if self._in_shard >= SHARD_TOKENS:
            self._end_shard()

    def _end_shard(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer, self._in_shard = None, 0


class JsonShards:
    """`part-00000.jsonl` and so on: a row a line, strict JSON, null for what is no number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: list[str] = []
        self._file: Any = None
        self._in_shard = 0

    def add(self, row: RLSample) -> None:
        """Write one row."""
        require_sound(row)
        if self._file is None:
            self._names.append(f"part-{len(self._names):05}.jsonl")
            self._file = (self._folder / self._names[-1]).open("w", encoding="utf-8")
        self._file.write(strict_json.dumps(plain(row)) + "\n")
        self._in_shard += len(row.token_ids)
        if self._in_shard >= SHARD_TOKENS:
            self._end_shard()

    def close(self) -> list[str]:
        """Finish the last file; the names of all."""
        self._end_shard()
        return self._names

    def _end_shard(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._in_shard = None, 0


def require_sound(row: RLSample) -> None:
    """Raises ValueError for a row that contradicts itself."""
    problems = problems_of(row)
    if problems:
        raise ValueError(f"{row.sample_id}: {problems[0]}")


def plain(row: RLSample) -> dict[str, Any]:
    """A row as JSON values."""
    values = {each.name: getattr(row, each.name) for each in fields(row)}
    values |= {name: list(values[name]) for name in TOKEN_COLUMNS}
    values["logprobs"] = _without_nan(row.logprobs)
    values["policy_versions"] = list(row.policy_versions)
    values["spans"] = [_span(span) for span in row.spans]
    return dict(strict_json.clean(values)[0])


def _without_nan(values: Sequence[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]


def _span(span: Span) -> dict[str, Any]:
    return asdict(span)
